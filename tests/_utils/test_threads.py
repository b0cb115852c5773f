"""One thread where it was asked for, and as many as before afterwards."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from bagwise._utils import threads
from bagwise._utils.threads import one_thread

np.linalg.eigh(np.eye(2))  # so that there is a BLAS to look at


def counts(*kinds):
    return {
        library["filepath"]: library["num_threads"]
        for library in threadpool_info()
        if library["user_api"] in kinds
    }


def test_one_thread_within_and_as_before_afterwards():
    before = counts("blas", "openmp")
    with one_thread():
        assert set(counts("blas", "openmp").values()) == {1}
        with one_thread("blas"):
            assert set(counts("blas").values()) == {1}
    assert counts("blas", "openmp") == before
    with pytest.raises(KeyError), one_thread("blas"):
        raise KeyError
    assert counts("blas", "openmp") == before


def test_libraries_are_looked_for_again_only_after_an_import():
    found = threads._controller(1)
    assert threads._controller(1) is found
    assert threads._controller(2) is not found
