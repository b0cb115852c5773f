"""Rows by bag, by hashing and counting: what sorting and a dictionary find."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bagwise.bags.grouping import Numbers, group_rows, stable_order


@pytest.mark.parametrize("spread", [1, 3, 50])  # close together, with gaps, too far for a table
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_numbers_are_those_of_a_dictionary(spread, dtype):
    rng = np.random.default_rng(spread)
    for n in (1, 2, 300):
        ids = rng.permutation(np.arange(-100, -100 + n * spread))[:n].astype(dtype)
        known = {value: number for number, value in enumerate(ids.tolist())}
        asked = rng.integers(-200, 2 * n * spread, 80).astype(dtype)
        expected = [known.get(value, -1) for value in asked.tolist()]
        numbers = Numbers(known)
        assert numbers.of(asked.astype(np.int64)).tolist() == expected
        assert numbers.of(asked).tolist() == expected
        assert numbers.of(asked.astype(float)).tolist() == expected


@pytest.mark.parametrize("n_codes", [1, 5, 65_536, 70_000, 200_000])
def test_order_by_counting_is_that_by_sorting(n_codes):
    codes = np.random.default_rng(0).integers(0, n_codes, 100_000)
    assert_array_equal(stable_order(codes, n_codes), np.argsort(codes, kind="stable"))
    found, sizes = np.unique(codes, return_counts=True)
    grouping = group_rows(codes)
    by_id = np.argsort(grouping.ids)
    assert_array_equal(grouping.ids[by_id], found)
    assert_array_equal(np.diff(grouping.offsets)[by_id], sizes)


@pytest.mark.parametrize("spread", [1, 1000])  # by a table, by hashing
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint64, np.uint16, ">i4"])
def test_many_integers_are_numbered_as_they_appear(dtype, spread):
    rows = spread * np.random.default_rng(0).integers(0, 60_000, 50_000)
    if dtype == np.int64:
        rows -= 2**63 - 1 if spread == 1 else 2**40
    rows = rows.astype(dtype) + (np.uint64(2**63 + 5) if dtype == np.uint64 else 0)
    rows = rows.astype(dtype)
    grouping = group_rows(rows)
    first = np.sort(np.unique(rows, return_index=True)[1])
    assert_array_equal(grouping.ids, rows[first])
    assert_array_equal(grouping.sort(rows), np.repeat(rows[first], np.diff(grouping.offsets)))
    table = np.asfortranarray(np.column_stack([rows, np.arange(len(rows))]))
    assert grouping.sort(table).flags.f_contiguous
    assert_array_equal(grouping.sort(table), table[grouping.order])
