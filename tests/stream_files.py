"""Parquet files for the tests of streams: rows in any order, split over batches and files."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

N_BAGS = 40


def table(n_rows=900, seed=0, *, order="shuffled", offset=0.0):
    """Points whose spread depends on the bag's label, with every role that a column can have."""
    rng = np.random.default_rng(seed)
    bag = np.concatenate([np.arange(N_BAGS), rng.integers(0, N_BAGS, n_rows - N_BAGS)])
    if order == "sorted":
        bag = np.sort(bag)
    elif order == "shuffled":
        bag = rng.permutation(bag)
    label = 1.5 + np.sin(np.arange(N_BAGS))
    return pa.table(
        {
            "bag": [f"bag {i:02}" for i in bag],
            "number": bag,
            "x": offset + rng.normal(size=n_rows) * label[bag],
            "z": rng.normal(size=n_rows) + label[bag],
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "w": rng.uniform(0.1, 2.0, n_rows),
            "age": 20.0 + bag,
            "y": label[bag],
            "wide": np.where(label > 1.5, "wide", "narrow")[bag],
        }
    )


def write(path, rows, *, files=1, row_group_size=200):
    """Write a table to one file, or to a folder of several."""
    if files == 1:
        pq.write_table(rows, path, row_group_size=row_group_size)
        return path
    path.mkdir()
    cuts = np.linspace(0, rows.num_rows, files + 1).astype(int)
    for i, (start, stop) in enumerate(pairwise(cuts)):
        part = rows.slice(start, stop - start)
        pq.write_table(part, path / f"part-{i}.parquet", row_group_size=row_group_size)
    return path


def with_gaps(rows, column, positions):
    """The table with null in some rows of a column."""
    values = rows[column].to_pylist()
    for position in positions:
        values[position] = None
    index = rows.schema.get_field_index(column)
    return rows.set_column(index, column, pa.array(values, rows[column].type))
