"""Simulated faces: the shape of IMDb-WIKI without its pixels.

Person i has images j = 1 … N_i, taken at ages around the person's own:

    age_ij  = A_i + t_ij                      A_i ~ 10 + 80 Beta,  rounded to years
    look_ij = age_ij + u_i + v_ij             how old the face looks: person and image deviate
    pred_ij = look_ij + e_ij                  the network's prediction of the age
    x_ij    = max(0, W h_ij - b + noise)      its features: not negative, most of them 0

h_ij has waves of look_ij, traits of the person and traits of the image, so the features lie near a
curved surface of low dimension. More images tell more about A_i, but u_i is never averaged out.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Float64, Int64

from bagwise._utils.atomic import replacing
from bagwise.bags.validation import is_positive, sizes_to_offsets
from bagwise.datasets.faces import Faces, make_faces, row_blocks
from bagwise.datasets.imdb_wiki import COLUMNS, FEATURES, TABLE, load_imdb_wiki, write_features
from bagwise.exceptions import BagwiseError

PAPER_PEOPLE = 19_545
PAPER_FEATURES = 4096

# Sizes: a share of single images, and above them P(N) ∝ (N + shift)^-exponent, whose exponent gives
# the paper's 397,949 images.
MAX_SIZE = 796
SINGLE_SHARE = 0.225
SIZE_SHIFT, SIZE_EXPONENT = 3.0, 1.8771

AGE_RANGE = (10.0, 90.0)
AGE_BETA = (2.67, 4.95)  # mean 38 and standard deviation 13 years on that range

# Standard deviations in years. With them the network's error is near 10.3, as in the paper, and
# that of a good model of bags near 8.5.
SD_TIME, SD_PERSON, SD_IMAGE, SD_NETWORK = 3.0, 9.3, 8.5, 2.0

N_WAVES, N_PERSON_TRAITS, N_IMAGE_TRAITS = 8, 8, 16
NOISE_SD = 0.5  # of each feature, beside the traits
THRESHOLD = 4.0  # b: some eight in ten features are 0

# Traits and weights lie on a grid, which makes their products and sums exact in float32: the same
# features come out whatever the order of the sums, hence whatever the blocks and the machine.
GRID = 64.0


@dataclass(frozen=True, eq=False)
class _Images:
    """What there is to know of the images but their features."""

    offsets: Int64[np.ndarray, " n_offsets"]
    names: list[str]
    births: list[str]
    ages: Float64[np.ndarray, " n_images"]
    cnn_ages: Float64[np.ndarray, " n_images"]
    traits: Float32[np.ndarray, "n_images n_traits"]

    @property
    def sizes(self) -> Int64[np.ndarray, " n_bags"]:
        return np.diff(self.offsets)


def simulate_faces(
    scale: float = 1.0,
    n_features: int = PAPER_FEATURES,
    random_state: int = 0,
    path: str | os.PathLike[str] | None = None,
) -> Faces:
    """Simulate faces: 19,545 × scale people with 1 to 796 images, 22.5 % of them with one.

    Parameters
    ----------
    scale : share of the paper's number of people, > 0
    n_features : features of an image
    random_state : seed; the people do not depend on ``n_features``
    path : folder for ``data.csv.gz`` and ``feats.npy`` in the layout of `load_imdb_wiki`, which
        then maps them; files that are there are not replaced. By default the features are made in
        memory, of which scale = 1 needs 6.5 GB

    Examples
    --------
    >>> faces = simulate_faces(scale=0.01, n_features=16)
    >>> faces.bags
    Bags(195 bags, 3949 points, 16 features; sizes 1 / 2 / 4 / 13 / 586
    (min / 25% / median / 75% / max))
    """
    if not is_positive(scale):
        raise BagwiseError.because(f"scale is {scale!r}", "a number > 0", "1 is the paper's size.")
    if n_features < 1:
        raise BagwiseError.because(
            f"n_features is {n_features!r}", "a whole number > 0", "The paper has 4096."
        )
    people_seed, feature_seed = np.random.SeedSequence(random_state).spawn(2)
    images = _draw_images(max(1, round(PAPER_PEOPLE * scale)), np.random.default_rng(people_seed))
    blocks = _feature_blocks(images.traits, n_features, np.random.default_rng(feature_seed))
    if path is not None:
        _write(Path(path), images, blocks, n_features)
        return load_imdb_wiki(path)
    points = np.empty((len(images.ages), n_features), dtype=np.float32)
    for rows, features in blocks:
        points[rows] = features
    people = images.names, images.births
    return make_faces(points, images.offsets, people, images.ages, images.cnn_ages)


def _draw_images(n_people: int, rng: np.random.Generator) -> _Images:
    """Draw the ages, predictions and traits of all images."""
    sizes = rng.permutation(_sizes(n_people))
    low, high = AGE_RANGE
    own_age = low + (high - low) * rng.beta(*AGE_BETA, n_people)
    per_image = np.repeat(np.arange(n_people), sizes)
    n = len(per_image)
    ages = own_age[per_image] + SD_TIME * rng.standard_normal(n)
    ages = np.clip(np.rint(ages), low, high)
    look = ages + SD_PERSON * rng.standard_normal(n_people)[per_image]
    look += SD_IMAGE * rng.standard_normal(n)
    cnn_ages = np.round(look + SD_NETWORK * rng.standard_normal(n), 2)
    return _Images(
        offsets=sizes_to_offsets(sizes),
        names=[f"Person {i}" for i in range(n_people)],
        births=[str(2010 - round(age)) for age in own_age],
        ages=ages,
        cnn_ages=cnn_ages,
        traits=np.hstack(
            [
                _waves(look, rng),
                _on_grid(rng.standard_normal((n_people, N_PERSON_TRAITS)))[per_image],
                _on_grid(rng.standard_normal((n, N_IMAGE_TRAITS))),
            ]
        ),
    )


def _sizes(n_people: int) -> Int64[np.ndarray, " n_people"]:
    """Return the bag sizes as evenly spaced quantiles, so that their total hardly depends on luck.

    Independent draws from so long a tail would leave it uncertain by several per cent.
    """
    tail = (np.arange(2, MAX_SIZE + 1) + SIZE_SHIFT) ** -SIZE_EXPONENT
    cdf = SINGLE_SHARE + (1.0 - SINGLE_SHARE) * np.cumsum(tail) / tail.sum()
    levels = (np.arange(n_people) + 0.5) / n_people
    return 1 + np.searchsorted([SINGLE_SHARE, *cdf], levels).astype(np.int64)


def _waves(
    look: Float64[np.ndarray, " n"], rng: np.random.Generator
) -> Float32[np.ndarray, "n n_waves"]:
    """Return smooth functions of the age a face looks: √2 cos(ω_k look + phase_k).

    The slowest takes a life for half a turn, the fastest for about one turn and a half.
    """
    frequency = np.pi / (AGE_RANGE[1] - AGE_RANGE[0]) * np.linspace(1.0, 3.0, N_WAVES)
    phase = rng.uniform(0.0, 2.0 * np.pi, N_WAVES)
    return _on_grid(np.sqrt(2.0) * np.cos(look[:, None] * frequency + phase))


def _on_grid(values: Float64[np.ndarray, "rows columns"]) -> Float32[np.ndarray, "rows columns"]:
    """Round to multiples of 1/64, at most 8: a sum of 32 products then has at most 24 bits."""
    return (np.rint(np.clip(values, -8.0, 8.0) * GRID) / GRID).astype(np.float32)


def _feature_blocks(
    traits: Float32[np.ndarray, "n n_traits"], n_features: int, rng: np.random.Generator
) -> Iterator[tuple[slice, Float32[np.ndarray, "rows n_features"]]]:
    """Yield rows and their features max(0, W h - b + noise), block after block."""
    weights = _on_grid(rng.standard_normal((traits.shape[1], n_features)))
    for rows in row_blocks(len(traits), n_features):
        noise = rng.standard_normal((rows.stop - rows.start, n_features), dtype=np.float32)
        noise *= np.float32(NOISE_SD)
        noise += traits[rows] @ weights
        noise -= np.float32(THRESHOLD)
        yield rows, np.maximum(noise, np.float32(0.0), out=noise)


def _write(
    folder: Path,
    images: _Images,
    blocks: Iterator[tuple[slice, Float32[np.ndarray, "rows n_features"]]],
    n_features: int,
) -> None:
    """Write the two files, the features block by block; the table, at the end, says all is there.

    Files that are there already are not replaced: they may be the authors', which nobody can make.
    """
    import pyarrow as pa
    from pyarrow.csv import write_csv

    for name in (TABLE, FEATURES):
        if (folder / name).exists():
            raise BagwiseError.because(
                f"there is {folder / name} already",
                "a folder without faces",
                "Load them with load_imdb_wiki, remove them, or choose another folder.",
            )
    folder.mkdir(parents=True, exist_ok=True)
    names, births = (np.repeat(values, images.sizes) for values in (images.names, images.births))
    columns = (names, births, images.ages, images.cnn_ages)
    rows = (features for _, features in blocks)
    write_features(folder / FEATURES, (len(images.ages), n_features), rows)
    with replacing(folder / TABLE) as part, gzip.open(part, "wb") as file:
        write_csv(pa.table(dict(zip(COLUMNS, columns, strict=True))), file)
