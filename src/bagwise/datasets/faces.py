"""Faces: each person is a bag of images, the label the person's mean age in them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float, Float64, Int64, Shaped
from numpy.typing import ArrayLike

from bagwise.bags.bags import Bags
from bagwise.bags.grouping import rows_of
from bagwise.exceptions import BagwiseError

# Bags per split in the paper. Other numbers of bags are shared out in the same proportions, which
# are 50 %, 15 %, 15 % and 20 % up to two bags.
PAPER_BAGS = {"train": 9820, "early_stop": 2948, "validation": 2946, "test": 3928}

BLOCK_BYTES = 1 << 24  # of features in memory at once while they are copied from file to file


@dataclass(frozen=True, eq=False)
class Faces:
    """People as bags of images.

    Parameters
    ----------
    bags : one bag per person; points are images, described by features of a neural network
    labels : (n_bags,) mean age of the person over the images, in years
    names : (n_bags,) name of the person; two people may share one
    cnn_ages : (n_points,) the network's own prediction of the age in each image, as ``bags.points``
    folder : where the features are mapped from, or None if they are in memory

    Examples
    --------
    >>> from bagwise.datasets import simulate_faces
    >>> faces = simulate_faces(scale=0.01, n_features=8)
    >>> faces.bags.n_bags == len(faces.labels) == len(faces.names), len(faces.cnn_ages) > 1000
    (True, True)
    """

    bags: Bags
    labels: Float64[np.ndarray, " n_bags"]
    names: Shaped[np.ndarray, " n_bags"]
    cnn_ages: Float64[np.ndarray, " n_points"]
    folder: Path | None = None

    def split(self, seed: int = 20) -> FacesExperiment:
        """Split the people at random into train, early stop, validation and test.

        The paper's splits have the seeds 20 to 29, but how it turned them into splits is not
        known; see `FacesExperiment` for how it is done here.

        Examples
        --------
        >>> from bagwise.datasets import simulate_faces
        >>> data = simulate_faces(scale=0.001, n_features=8).split(seed=20)
        >>> [len(part.labels) for part in (data.train, data.early_stop, data.validation, data.test)]
        [10, 3, 3, 4]
        """
        return FacesExperiment(self, seed)

    def take(self, positions: Int64[np.ndarray, " n_chosen"]) -> Faces:
        """Return the people at these positions.

        Features in memory are copied in memory. Features mapped from a file are copied, in blocks,
        to a nameless temporary file in the same folder, which is gone once nothing uses it.
        """
        rows, offsets = rows_of(positions, self.bags.offsets)
        if self.folder is None:
            bags = self.bags[positions]
        else:
            points = _copy_rows(self.bags.points, rows, self.folder)
            bags = Bags(points, offsets, self.bags.ids[positions])
        return Faces(
            bags, self.labels[positions], self.names[positions], self.cnn_ages[rows], self.folder
        )


@dataclass(frozen=True, eq=False)
class FacesExperiment:
    """One split of the people; each part is made when first asked for.

    The positions 0 … n − 1 of the people are permuted with NumPy's legacy generator, which is the
    same everywhere, and cut where the paper's numbers of bags, 9,820 / 2,948 / 2,946 / 3,928, in
    proportion to n, say. Within a part people keep their order, so that files are read forwards.

    Parameters
    ----------
    faces : all people
    seed : seed of the permutation

    Examples
    --------
    >>> from bagwise.datasets import simulate_faces
    >>> split = FacesExperiment(simulate_faces(scale=0.01, n_features=8), seed=0)
    >>> split.train.bags.n_bags, split.test.bags.n_bags
    (97, 39)
    """

    faces: Faces
    seed: int

    def __post_init__(self) -> None:
        smallest = min(len(self.positions(split)) for split in PAPER_BAGS)
        if smallest < 1:
            raise BagwiseError.because(
                f"there are {len(self.faces.labels)} people to split",
                "at least one in each of train, early_stop, validation and test",
                "Use ten people or more.",
            )

    @cached_property
    def train(self) -> Faces:
        """Training bags (9,820 in the paper)."""
        return self.faces.take(self.positions("train"))

    @cached_property
    def early_stop(self) -> Faces:
        """Early-stopping bags (2,948 in the paper)."""
        return self.faces.take(self.positions("early_stop"))

    @cached_property
    def validation(self) -> Faces:
        """Validation bags (2,946 in the paper)."""
        return self.faces.take(self.positions("validation"))

    @cached_property
    def test(self) -> Faces:
        """Test bags (3,928 in the paper)."""
        return self.faces.take(self.positions("test"))

    def positions(self, split: str) -> Int64[np.ndarray, " n_chosen"]:
        """Return the positions of a part's people among all people, in increasing order."""
        n = len(self.faces.labels)
        order = np.random.RandomState(self.seed).permutation(n)
        shares = np.cumsum([0, *PAPER_BAGS.values()])
        cuts = np.rint(n * shares / shares[-1]).astype(np.int64)
        part = list(PAPER_BAGS).index(split)
        return np.sort(order[cuts[part] : cuts[part + 1]]).astype(np.int64)


def make_faces(
    points: Float[np.ndarray, "n_points n_features"],
    offsets: Int64[np.ndarray, " n_offsets"],
    people: tuple[ArrayLike, ArrayLike],
    ages: Float64[np.ndarray, " n_points"],
    cnn_ages: Float64[np.ndarray, " n_points"],
    folder: Path | None = None,
) -> Faces:
    """Put faces together from images that are stacked person after person.

    Parameters
    ----------
    points, offsets : as in `Bags`; a memory map stays one
    people : names and dates of birth, (n_bags,) each; together they are the bags' ids
    ages, cnn_ages : true and predicted age in each image
    folder : see `Faces`
    """
    names, births = (np.asarray(values, dtype=str) for values in people)
    ids = [f"{name} ({birth})" for name, birth in zip(names, births, strict=True)]
    labels = np.add.reduceat(ages, offsets[:-1]) / np.diff(offsets)
    return Faces(Bags(points, offsets, ids), labels, names, cnn_ages, folder)


def row_blocks(n_rows: int, n_features: int) -> Iterator[slice]:
    """Cut rows of float32 features into consecutive blocks of at most 16 MB."""
    step = max(1, BLOCK_BYTES // (4 * n_features))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def _copy_rows(
    points: Float[np.ndarray, "n p"], rows: Int64[np.ndarray, " m"], folder: Path
) -> Float[np.ndarray, "m p"]:
    """Copy rows to a temporary file and map it; the space is free again when the map is."""
    with tempfile.TemporaryFile(dir=folder) as file:
        for block in row_blocks(len(rows), points.shape[1]):
            file.write(points[rows[block]].data)
        file.flush()
        return np.memmap(file, points.dtype, "r", shape=(len(rows), points.shape[1]))
