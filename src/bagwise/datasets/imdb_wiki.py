"""IMDb-WIKI: ages of people from bags of images, in the layout of the paper's authors.

A folder with two files:

- ``data.csv.gz``: one row per image, with the columns name, dob (date of birth), age and pred (the
  network's prediction of the age); other columns are ignored
- ``feats.npy``: float32 (n_images, 4096), one row of features of the network per image

Reference: Law, Sutherland, Sejdinovic, Flaxman (2018), Bayesian Approaches to Distribution
Regression, section 5.2.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64, Shaped

from bagwise.bags.grouping import group_rows
from bagwise.datasets.faces import Faces, make_faces, row_blocks
from bagwise.exceptions import BagwiseError

TABLE = "data.csv.gz"
FEATURES = "feats.npy"
SORTED_FEATURES = "feats-by-person.npy"
COLUMNS = ("name", "dob", "age", "pred")

LAYOUT = (
    f"a folder with {TABLE} (one row per image; columns {', '.join(COLUMNS)}) and {FEATURES} "
    "(float32, one row of features per image)"
)
SOURCE = (
    "The files come from the repository that the authors of Bayesian Approaches to Distribution "
    "Regression (2018) published, and may not be passed on with this package. Without them, "
    "simulate_faces() makes data of the same shape."
)


def load_imdb_wiki(folder: str | os.PathLike[str]) -> Faces:
    """Load the faces of IMDb-WIKI: one bag per person, about 20,000 bags of 1 to 796 images.

    A person is a pair of name and date of birth, in order of first appearance; the label is the
    mean age over the person's images. The features, 6.5 GB, stay on disk: they are mapped, and read
    once, block by block, to check that they are finite. If the images of a person are not together
    in the file, a sorted copy, ``feats-by-person.npy``, is first written beside it. It is used
    again as long as it is newer than the two files.

    Parameters
    ----------
    folder : folder with ``data.csv.gz`` and ``feats.npy``; the files are described above

    Examples
    --------
    >>> import tempfile
    >>> from bagwise.datasets import simulate_faces
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = simulate_faces(scale=0.001, n_features=8, path=folder)
    ...     faces = load_imdb_wiki(folder)
    >>> faces.bags.n_bags, faces.bags.points.dtype
    (20, dtype('float32'))
    """
    folder = Path(folder)
    for file in (TABLE, FEATURES):
        if not (folder / file).is_file():
            raise BagwiseError.because(f"there is no file {file} in {folder}", LAYOUT, SOURCE)
    images = _read_images(folder / TABLE)
    points = _map_features(folder / FEATURES, len(images.ages))
    grouping = group_rows(images.people)
    if grouping.order is not None:
        points = _sorted_features(folder, points, grouping.order)
    heads = np.unique(images.people, return_index=True)[1]  # an image of each person
    heads = np.sort(heads)  # in order of first appearance, as the bags
    return make_faces(
        points,
        grouping.offsets,
        (images.names[heads], images.births[heads]),
        grouping.sort(images.ages),
        grouping.sort(images.cnn_ages),
        folder,
    )


@dataclass(frozen=True, eq=False)
class _Images:
    """Rows of the table; people are numbers that differ whenever name or date of birth do."""

    names: Shaped[np.ndarray, " n_images"]
    births: Shaped[np.ndarray, " n_images"]
    people: Int64[np.ndarray, " n_images"]
    ages: Float64[np.ndarray, " n_images"]
    cnn_ages: Float64[np.ndarray, " n_images"]


def _read_images(path: Path) -> _Images:
    """Read the four columns of the table."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, read_csv

    types = dict(zip(COLUMNS, (pa.string(), pa.string(), pa.float64(), pa.float64()), strict=True))
    options = ConvertOptions(column_types=types, include_columns=list(COLUMNS))
    try:
        _check_header(path)
        table = read_csv(str(path), convert_options=options)
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        raise BagwiseError.because(
            f"{path.name} cannot be read ({error})",
            "a gzipped table with one row per image, age and pred as numbers",
            "Check the file, or get it again.",
        ) from None
    names, births = (table[column].combine_chunks().dictionary_encode() for column in COLUMNS[:2])
    name_codes, birth_codes = (_numbers(coded.indices) for coded in (names, births))
    return _Images(
        names=np.array(names.dictionary.to_pylist(), dtype=object)[name_codes],
        births=np.array(births.dictionary.to_pylist(), dtype=object)[birth_codes],
        people=name_codes * len(births.dictionary) + birth_codes,
        ages=_finite(table["age"].to_numpy(), "age", path),
        cnn_ages=_finite(table["pred"].to_numpy(), "pred", path),
    )


def _numbers(codes: Any) -> Int64[np.ndarray, " n"]:
    return codes.to_numpy().astype(np.int64)


def _check_header(path: Path) -> None:
    """Raise unless the table has the columns that are needed."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        header = next(csv.reader(file), [])
    absent = [column for column in COLUMNS if column not in header]
    if absent:
        raise BagwiseError.because(
            f"{path.name} has the columns {', '.join(header)}, without {', '.join(absent)}",
            LAYOUT,
            "Rename the columns that go by other names.",
        )


def _finite(
    values: Float64[np.ndarray, " n_images"], column: str, path: Path
) -> Float64[np.ndarray, " n_images"]:
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise BagwiseError.because(
            f"{path.name}, row {bad[0]}, {column} is {values[bad[0]]}",
            "a finite number in every row",
            f"Drop the image, and its row of {FEATURES}.",
        )
    return values


def _map_features(path: Path, n_images: int) -> np.memmap:
    """Map the features from the file, after checking all that can be checked without reading."""
    try:
        features = np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise BagwiseError.because(
            f"{path.name} cannot be mapped ({error})",
            "a whole file of numpy.save",
            "Check its size, or get it again.",
        ) from None
    kind = (
        f"{features.dtype} {features.shape}{'' if features.flags.c_contiguous else ', by column'}"
    )
    # Any other kind of number or order would have to be converted, all of it, in memory.
    if features.dtype != np.float32 or features.ndim != 2 or not features.flags.c_contiguous:
        raise BagwiseError.because(
            f"{path.name} is {kind}",
            "a matrix of float32 (images, features), stored row by row",
            "Convert it in blocks with numpy.lib.format.open_memmap.",
        )
    if len(features) != n_images:
        raise BagwiseError.because(
            f"{path.name} has {len(features)} rows but {TABLE} has {n_images}",
            "one row per image in both",
            "Check that both files are whole, and of the same release.",
        )
    return features


def _sorted_features(
    folder: Path, features: np.memmap, order: Int64[np.ndarray, " n_images"]
) -> np.memmap:
    """Map the copy of the features that is sorted by person; write it if there is none."""
    path = folder / SORTED_FEATURES
    newest = max((folder / file).stat().st_mtime_ns for file in (TABLE, FEATURES))
    if not path.exists() or path.stat().st_mtime_ns <= newest:
        blocks = (features[order[block]] for block in row_blocks(*features.shape))
        write_features(path, features.shape, blocks)
    return _map_features(path, len(features))


def write_features(
    path: Path, shape: tuple[int, ...], blocks: Iterable[Float32[np.ndarray, "rows n_features"]]
) -> None:
    """Write a .npy file of float32, block of rows after block of rows.

    Half a file never bears the name, and maps of a file that had it before stay as they are.
    """
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(block.data)
    partial.replace(path)
