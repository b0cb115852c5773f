"""The network's own answer for a bag of faces: the average of its answers for the images.

    p(y_i) = mean_j N(y_i; c_ij, s²)

- c_ij: the network's prediction of the age in image j of person i
- s: one standard deviation for all images, by maximum likelihood on training bags

This is the baseline called CNN in the paper. It knows no bag size: more images do not make it
surer.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int64
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri

from bagwise._utils.levels import LEVEL, check_level
from bagwise.datasets.faces import Faces
from bagwise.exceptions import BagwiseError

LOG_SD_TOLERANCE = 1e-9
BISECTIONS = 60  # halvings of the range of the quantiles: down to float64 resolution


class ImageMixture:
    """Predictive distribution of each label: the average of a Gaussian per image.

    p(y_i) = mean_j N(y_i; centers_ij, image_sd²)

    Parameters
    ----------
    centers : (n_points,) array, stacked bag after bag
    offsets : (n + 1,) array, bag i has the centers offsets[i] to offsets[i+1]
    image_sd : standard deviation of every Gaussian, > 0

    Examples
    --------
    >>> p = ImageMixture(np.array([30.0, 34.0, 60.0]), np.array([0, 2, 3]), image_sd=1.5)
    >>> p.mean, p.std
    (array([32., 60.]), array([2.5, 1.5]))
    >>> p.cdf([32.0, 60.0])
    array([0.5, 0.5])
    """

    def __init__(
        self,
        centers: Float[np.ndarray, " n_points"],
        offsets: Int64[np.ndarray, " n_offsets"],
        *,
        image_sd: float,
    ) -> None:
        self.centers, self.offsets, self.image_sd = centers, offsets, image_sd
        self.sizes = np.diff(offsets)

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        """Means (n,): the average prediction over the images of each bag."""
        return self._average(self.centers)

    @property
    def std(self) -> Float[np.ndarray, " n"]:
        """Standard deviations (n,): that of an image, and the spread between images."""
        spread = self._average((self.centers - self._per_image(self.mean)) ** 2)
        return np.sqrt(self.image_sd**2 + spread)

    def log_prob(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """Log density at ``y``, a number or (n,)."""
        logs = -0.5 * self._standardise(y) ** 2
        peak = np.maximum.reduceat(logs, self.offsets[:-1])  # taken out: no underflow far away
        total = np.log(self._average(np.exp(logs - self._per_image(peak))))
        return peak + total - np.log(self.image_sd) - 0.5 * np.log(2 * np.pi)

    def cdf(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """P(label <= y) per bag; ``y`` is a number or (n,)."""
        return self._average(ndtr(self._standardise(y)))

    def interval(self, level: float = LEVEL) -> Float[np.ndarray, "n 2"]:
        """Central interval that holds probability ``level``: columns lower, upper."""
        check_level(level)
        tails = (1.0 - level) / 2.0, (1.0 + level) / 2.0
        return np.stack([self._quantile(tail) for tail in tails], axis=1)

    def crps(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """Continuous ranked probability score at ``y``, a number or (n,).

        E|X - y| - E|X - X'| / 2,  X, X' ~ p(y_i) independent
        """
        distance = _mean_absolute(self.image_sd * self._standardise(y), self.image_sd)
        bags = np.split(self.centers, self.offsets[1:-1])
        pair_sd = np.sqrt(2.0) * self.image_sd
        spread = [_mean_absolute(bag[:, None] - bag, pair_sd).mean() for bag in bags]
        return self._average(distance) - 0.5 * np.array(spread)

    def __len__(self) -> int:
        return len(self.sizes)

    def _average(self, values: Float[np.ndarray, " n_points"]) -> Float[np.ndarray, " n"]:
        return np.add.reduceat(values, self.offsets[:-1]) / self.sizes

    def _per_image(self, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n_points"]:
        return np.repeat(values, self.sizes)

    def _standardise(self, y: ArrayLike) -> Float[np.ndarray, " n_points"]:
        values = np.asarray(y, dtype=np.float64)
        if values.shape not in ((), (len(self),)):
            raise BagwiseError.because(
                f"y has shape {values.shape}", f"a number or ({len(self)},)", "One label per bag."
            )
        labels = self._per_image(np.broadcast_to(values, (len(self),)))
        return (labels - self.centers) / self.image_sd

    def _quantile(self, probability: float) -> Float[np.ndarray, " n"]:
        """Solve cdf(y) = probability by bisection, for all bags at once.

        The mixture's quantile lies between the least and greatest quantile of its Gaussians.
        """
        shift, starts = self.image_sd * ndtri(probability), self.offsets[:-1]
        low = np.minimum.reduceat(self.centers, starts) + shift
        high = np.maximum.reduceat(self.centers, starts) + shift
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            under = self.cdf(middle) < probability
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return 0.5 * (low + high)


def cnn_baseline(train: Faces, faces: Faces) -> ImageMixture:
    """Predict ages as the network does, with the standard deviation that suits training bags best.

    Parameters
    ----------
    train : people whose labels choose the standard deviation
    faces : people whose ages are predicted

    Examples
    --------
    >>> from bagwise.datasets import simulate_faces
    >>> data = simulate_faces(scale=0.01, n_features=8).split(seed=20)
    >>> prediction = cnn_baseline(data.train, data.test)
    >>> prediction.mean.shape == data.test.labels.shape
    True
    """
    return ImageMixture(faces.cnn_ages, faces.bags.offsets, image_sd=_best_sd(train))


def _best_sd(train: Faces) -> float:
    """Return the s with the greatest likelihood of the labels.

    Where the likelihood is flat, s² is the mean over bags of a weighted mean of (y_i - c_ij)², with
    more weight on images that are nearer: between the means of the least and of the plain mean.
    """
    offsets = train.bags.offsets
    squares = (np.repeat(train.labels, np.diff(offsets)) - train.cnn_ages) ** 2
    least = np.minimum.reduceat(squares, offsets[:-1]).mean()
    plain = np.mean(np.add.reduceat(squares, offsets[:-1]) / np.diff(offsets))
    if least == 0:
        raise BagwiseError.because(
            "every training label equals the prediction of one of its images",
            "predictions that err",
            "The likelihood has no maximum: check that cnn_ages are not the ages themselves.",
        )

    def loss(log_sd: float) -> float:
        mixture = ImageMixture(train.cnn_ages, offsets, image_sd=float(np.exp(log_sd)))
        return -float(mixture.log_prob(train.labels).sum())

    bounds = 0.5 * np.log(least), 0.5 * np.log(plain)
    if bounds[1] - bounds[0] < LOG_SD_TOLERANCE:  # one image per bag: no weights to find
        return float(np.sqrt(plain))
    options = {"xatol": LOG_SD_TOLERANCE}
    return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options=options).x))


def _mean_absolute(center: Float[np.ndarray, "..."], sd: float) -> Float[np.ndarray, "..."]:
    """E|X| of X ~ N(center, sd²): sd {2 φ(z) + z (2 Φ(z) - 1)}, z = center / sd."""
    z = center / sd
    return sd * (np.sqrt(2 / np.pi) * np.exp(-0.5 * z**2) + z * (2.0 * ndtr(z) - 1.0))
