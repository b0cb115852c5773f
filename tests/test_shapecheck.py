"""What checks shapes and types while the tests run does so."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pytest
from jaxtyping import Float64, TypeCheckError, jaxtyped

import shapecheck


class Doubles(Protocol):
    def double(self, x: int) -> int: ...


class Does:
    def double(self, x: int) -> int:
        return 2 * x


@jaxtyped(typechecker=shapecheck.checked)
def column_sums(
    a: Float64[np.ndarray, "n k"],
    b: Float64[np.ndarray, " n"] | None = None,
    c: Doubles | None = None,
    d: tuple[int, str] = (1, "a"),
    e: float = 0.0,
) -> Float64[np.ndarray, " k"]:
    return a.sum(axis=int(e))


@jaxtyped(typechecker=shapecheck.checked)
@dataclass
class Pair:
    a: Float64[np.ndarray, " n"]
    b: Float64[np.ndarray, " n"]
    name: str


A = np.zeros((3, 2))


@pytest.fixture(autouse=True)
def every_case_is_checked():
    shapecheck.begin_test()


def test_what_fits_passes():
    assert column_sums(A).shape == (2,)
    assert column_sums(A, np.zeros(3), Does(), (2, "b"), 0).shape == (2,)
    assert Pair(np.zeros(2), np.zeros(2), "a").name == "a"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: column_sums(A.astype(np.float32)),
        lambda: column_sums(np.zeros(3)),
        lambda: column_sums(A, np.zeros(2)),
        lambda: column_sums(A, None, object()),
        lambda: column_sums(A, d=(1, 2)),
        lambda: column_sums(A, e="1"),
        lambda: column_sums(A, e=1),  # the result has another length
        lambda: Pair(np.zeros(2), np.zeros(3), "a"),
        lambda: Pair(np.zeros(2), np.zeros(2), 1),
    ],
    ids=["type", "axes", "length", "protocol", "tuple", "number", "result", "fields", "field"],
)
def test_what_does_not_is_an_error(wrong):
    with pytest.raises(TypeCheckError):
        wrong()


def test_what_one_object_is_does_not_excuse_others_of_its_class():
    column_sums(A, np.zeros(3), Does(), (2, "b"))  # hints of which some are decided by the class
    for wrong in ({"b": np.zeros(2)}, {"c": object()}, {"d": (2, 2)}):
        shapecheck.begin_test()
        with pytest.raises(TypeCheckError):
            column_sums(A, **wrong)


def test_only_the_first_calls_of_a_test_are_checked():
    with pytest.raises(TypeCheckError):
        column_sums(np.zeros(3))
    for _ in range(shapecheck.FIRST_CALLS):
        column_sums(A)
    column_sums(A.astype(np.float32))
