"""Embeddings: how the points of a bag become features, as one nested object of an estimator.

``ShrinkageRegressor(KernelEmbedding(100, kernel="matern32"))`` says what the features are;
``embedding__n_landmarks`` is a parameter of the regressor like any other. On its own an embedding
is a scikit-learn transformer from bags to a matrix, a row per bag.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from jaxtyping import Float64, Shaped
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.validation import (
    Objects,
    check_columns,
    choice,
    flag,
    generator,
    number_or,
    whole_or_auto,
    wrong,
)
from bagwise.embedding.posterior import kernel_prior
from bagwise.embedding.sums import BagStats, summarise
from bagwise.exceptions import BagwiseError, InvalidBagsError
from bagwise.features.kernels import (
    RBF,
    Kernel,
    Linear,
    Mixed,
    UserKernel,
    as_kernel,
    check_ordinary,
)
from bagwise.features.maps import (
    DEFAULT_LANDMARKS,
    Features,
    FourierFeatures,
    LandmarkFeatures,
    Scaling,
    choose_landmarks,
    drawn_landmarks,
    given_landmarks,
    median_bandwidth,
    sample_points,
    spanning_landmarks,
)
from bagwise.features.network import NetworkFeatures, UserNetworkFeatures, check_image_shape
from bagwise.inference.settings import Training

# Multiples of the median heuristic that bandwidth="auto" chooses from.
AUTO_SCALES = (0.5, 1.0, 2.0, 4.0)
AUTO_SCALES_OF_MIXED = (0.5, 2.0)  # each of which is two bandwidths

# Kernels that kernel="auto" chooses from, from those that see most of a bag to the one that sees
# its mean alone, and the one that is for all; the first is taken where there is nothing to choose
# by.
AUTO_KERNELS = ("rbf", "energy", "additive-rbf", "additive-energy", "linear", "mixed")

# Relative floor of the within-bag covariance; see bagwise.embedding.posterior.with_floor.
COVARIANCE_FLOOR = 0.01

# Outputs of a network when the user leaves their number to us.
NETWORK_OUTPUTS = 32

# Networks of our own.
NETWORKS = ("mlp", "conv")

# What an embedding makes of a bag.
OUTPUTS = ("mean", "shrunk", "shrunk+sd")

Points = Shaped[np.ndarray, "m p"]


class TakesBags(BaseEstimator):
    """An estimator or transformer whose samples are bags."""

    n_features_in_: int

    def _keep_columns(self, bags: Bags) -> None:
        self.n_features_in_ = bags.n_features
        self._feature_names = bags.feature_names
        self._covariates = (bags.covariate_names, bags.n_covariates)
        self._of_objects = bags.of_objects
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if bags.feature_names is not None:
            self.feature_names_in_ = np.array(bags.feature_names, dtype=object)

    def _check_bags(self, X: Any) -> Bags:
        bags = as_bags(X)
        if bags.of_objects != (of_objects := getattr(self, "_of_objects", False)):
            kinds = ["objects" if objects else "numbers" for objects in (False, True)]
            raise InvalidBagsError.because(
                f"the points of these bags are {kinds[bags.of_objects]}",
                f"{kinds[of_objects]}, as in fit",
                "Give bags of the kind that the model was fitted to.",
            )
        check_columns("feature", self._feature_names, self.n_features_in_, bags)
        check_columns("covariate", *self._covariates, bags)
        return bags

    def __sklearn_tags__(self) -> Any:
        return tags_of_bags(super().__sklearn_tags__())


def tags_of_bags(tags: Any) -> Any:
    """Say of X that it is bags, and no table with a row per sample, so that nobody takes it so."""
    tags.input_tags.two_d_array = False
    tags.input_tags.three_d_array = True
    tags.input_tags.dict = True
    return tags


class BagEmbedding(TransformerMixin, TakesBags):
    """What all embeddings share: scaling, the choice of a bandwidth, and being a transformer."""

    kernel: Kernel | str | Callable[..., Any]
    bandwidth: float | str
    standardize: bool
    output: str
    random_state: Any
    learn: Any = None
    _column: ClassVar[str]
    _number: ClassVar[str]
    _always_learns: ClassVar[bool] = False

    @abstractmethod
    def _maker(
        self, points: Points, scaling: Scaling, rng: np.random.Generator, default: int
    ) -> Callable[[Kernel], Features]:
        """Return kernel ↦ Features, with what is random not depending on the kernel."""

    def candidates(
        self, bags: Bags, default: int = DEFAULT_LANDMARKS, *, per_landmark: int | None = None
    ) -> list[Features]:
        """Make the features of training bags: one set, or one for each kernel and bandwidth.

        ``default`` is how many features there are if the embedding does not say; then each is
        found of ``per_landmark`` points at most.
        """
        scaling, points, kernels, rng = self.prepare(bags)
        ours = whole_or_auto(self._number, getattr(self, self._number), self._name) is None
        if per_landmark is not None and ours and not bags.of_objects:
            points = points[:: -(-len(points) // (per_landmark * default))]
        return list(map(self._maker(points, scaling, rng, default), kernels))

    def prepare(self, bags: Bags) -> tuple[Scaling, Points, list[Kernel], np.random.Generator]:
        """Return the scaling, a scaled sample of points, the kernels to be tried, the generator."""
        rng = generator(self.random_state)
        standardize = flag("standardize", self.standardize, self._name)
        first = self._kernels(bags.n_features)[0]
        if bags.of_objects and not isinstance(first, UserKernel):
            raise InvalidBagsError.because(
                f"the points are objects, such as {bags.points[0, 0]!r:.60}, and {self._name} has "
                f"no kernel for them",
                "points of numbers, or a kernel of your own",
                "Use KernelEmbedding(kernel=f), f(list, list) of shape (n, m); or make numbers of "
                "them first: bags.with_points(vectors).",
            )
        sample = sample_points(bags, rng)
        if isinstance(first, UserKernel):  # which sees points as they are
            return Scaling.of(np.zeros(bags.n_features)), sample, [first], rng
        scaling = Scaling.fit(bags, standardize=standardize, sample=sample)
        points, kernels = scaling(sample), list[Kernel]()
        asked = self._kernels(points.shape[1])
        typical = median_bandwidth(points, RBF()) if any(map(_lacks_bandwidth, asked)) else 1.0
        for kernel in asked:
            check_ordinary(points, kernel)
            median = typical * float(np.sqrt(kernel.spread(points.shape[1])))
            kernels += [
                kernel if s is None else kernel.with_bandwidth(s * median)
                for s in self._scales(kernel)
            ]
        return scaling, points, kernels, rng

    def _kernels(self, n_columns: int) -> list[Kernel]:
        """Return the kernels to be tried, without their bandwidths."""
        if not (isinstance(self.kernel, str) and self.kernel == "auto"):
            return [as_kernel(self.kernel)]
        # of one column the additive kernel is the kernel itself
        names = [name for name in AUTO_KERNELS if n_columns > 1 or "additive" not in name]
        return list(map(as_kernel, names))

    def _scales(self, kernel: Kernel) -> tuple[float | None, ...]:
        """Return multiples of the median heuristic to be tried; (None,) if none is needed."""
        if not _lacks_bandwidth(kernel):
            return (None,)
        scale = number_or("bandwidth", self.bandwidth, "auto", of=self._name)
        if scale is not None:
            return (scale,)
        return AUTO_SCALES_OF_MIXED if isinstance(kernel, Mixed) else AUTO_SCALES

    def scales(self, n_columns: int) -> list[tuple[float | None, ...]]:
        """Return the multiples of the median heuristic that are tried, for each kernel."""
        return [self._scales(kernel) for kernel in self._kernels(n_columns)]

    def reduced(self, most: int) -> Self:
        """Return this embedding, or one with fewer features if it asks for more than these."""
        asked = getattr(self, self._number)
        if not isinstance(asked, int | np.integer) or asked <= most:
            return self
        return clone(self).set_params(**{self._number: most})

    @property
    def training(self) -> Training | None:
        """What is learnt, and how; None if features stay as they are at the start."""
        learn = self.learn
        if isinstance(learn, Training):
            return learn if learn.what or self._always_learns else self._learns_nothing()
        if learn is None or (isinstance(learn, str | tuple | list) and not len(learn)):
            return Training() if self._always_learns else None
        if isinstance(learn, str):
            return Training(learn)
        if isinstance(learn, tuple | list) and all(isinstance(name, str) for name in learn):
            return Training(tuple(learn))
        raise wrong("learn", learn, "names of what is learnt, or bagwise.inference.Training()")

    def _learns_nothing(self) -> NoReturn:
        raise wrong("learn", self.learn, 'what is learnt, such as Training("bandwidth, landmarks")')

    @property
    def n_candidates(self) -> int:
        """Number of sets of features that are tried, at most."""
        return self._count(2)

    def count(self, bags: Bags) -> int:
        """Return the number of sets of features that are tried of these bags."""
        return self._count(bags.n_features)

    def places_of(self, kind: type[Kernel], n_columns: int) -> list[int]:
        """Return which of the sets of features have a kernel of some kind."""
        kernels = self._kernels(n_columns)
        each = [kernel for kernel in kernels for _ in self._scales(kernel)]
        return [place for place, kernel in enumerate(each) if isinstance(kernel, kind)]

    def _count(self, n_columns: int) -> int:
        return sum(map(len, self.scales(n_columns)))

    @property
    def _name(self) -> str:
        return type(self).__name__

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose landmarks and scales from bags X; y is not used.

        There is no label to choose by: "auto" is the RBF kernel and the median heuristic.
        """
        bags, output = as_bags(X), choice("output", self.output, OUTPUTS, self._name)
        if self.training is not None:
            raise BagwiseError.because(
                f"{self._name} is to learn features by itself, without labels",
                "an estimator that learns them by its labels",
                "Use ShrinkageRegressor(embedding), and then model.features_; or leave out learn.",
            )
        found = self.candidates(bags)
        first = len(self._scales(self._kernels(bags.n_features)[0]))
        features = found[AUTO_SCALES.index(1.0)] if first > 1 else found[0]
        for name in ("model_", "prior_scale_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if output != "mean":
            stats = summarise(bags, features)
            need_covariance(stats, 'Use output="mean".')
            self.model_ = kernel_prior(features, stats, COVARIANCE_FLOOR)
            self.prior_scale_ = self.model_.posterior(stats).most_likely_scale()
        self.features_, self._output = features, output
        self._keep_columns(bags)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_output")

    def transform(self, X: Any) -> Float64[np.ndarray, "n k"]:
        """Return a row for each bag: what is known of its embedding, and then its covariates."""
        check_is_fitted(self)
        bags = self._check_bags(X)
        columns = self._embedded(summarise(bags, self.features_, covariance=False))
        return np.hstack([*columns, *([] if bags.covariates is None else [bags.covariates])])

    def _embedded(self, stats: BagStats) -> list[Float64[np.ndarray, "n d"]]:
        if self._output == "mean":
            return [stats.mean]
        posterior = self.model_.posterior(stats, self.prior_scale_)
        if self._output == "shrunk":
            return [posterior.at_landmarks()]
        return [posterior.at_landmarks(), posterior.sd_at_landmarks()]

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the columns: ``landmark0`` …, ``landmark0_sd`` …, covariates."""
        check_is_fitted(self)
        names = [f"{self._column}{i}" for i in range(self.features_.n_outputs)]
        if self._output == "shrunk+sd":
            names += [f"{name}_sd" for name in names]
        given, n_covariates = self._covariates
        names += given or [f"covariate_{j}" for j in range(n_covariates)]
        return np.array(names, dtype=object)


class KernelEmbedding(BagEmbedding):
    """Mean embedding at landmarks: φ(x) = k(x, u_1), …, k(x, u_d), averaged over a bag.

    In an estimator it says what the features of the points are. On its own it turns bags into a
    matrix with a row per bag, for any model of scikit-learn.

    Parameters
    ----------
    n_landmarks : int or "auto"
        "auto": 60, in a Gaussian process 200, or the number of distinct points if that is smaller;
        of a linear kernel one along each column, if these are no more.
    kernel : str or Kernel
        "rbf", "matern12", "matern32", "matern52", "linear", "energy", one of these after
        "additive-", or "mixed"; or a kernel of :mod:`bagwise.kernels`, whose bandwidth, if it has
        one, is then kept. "auto": in an estimator "rbf", "energy", one of these two after
        "additive-", "linear" or "mixed", by the loss of the fit. Or a kernel of your own, for
        points of any kind: a function of two lists of points that returns the matrix of k(x, y), a
        row for each of the first and a column for each of the second; or the name of a pairwise
        kernel of scikit-learn ("cosine", "laplacian", "chi2", "polynomial"). It sees points as they
        are: ``standardize`` and ``bandwidth`` have no say, and landmarks are drawn at random.
    landmarks : "kmeans", "random" or array (d, n_features)
        How landmarks are chosen, or which they are; of objects, a list of them.
    function_landmarks : array (s, n_features), optional
        Landmarks z of the function f = Σ_l α_l k(·, z_l) of :class:`ShrinkageRegressor` and
        :class:`ShrinkageClassifier`; by default the same u.
    bandwidth : float or "auto"
        Multiple of the median heuristic; in an estimator "auto" chooses from 0.5, 1, 2, 4 by the
        loss of the fit.
    standardize : bool
        Whether to bring all columns to unit variance first.
    output : "mean", "shrunk" or "shrunk+sd"
        What ``transform`` returns: averages; or posterior means, pulled to the average bag the more
        the smaller the bag; or these and the posterior standard deviations beside them. An
        estimator has its own way with them, and does not ask.
    learn : names or bagwise.inference.Training, optional
        What of the features is learnt with the labels, in an estimator: "bandwidth", "ard" (a scale
        for each column), "landmarks", "function_landmarks", "prior_length" (of the convolved prior)
        and "point_weights", w(x) = exp(g·φ(x)) of the points of a bag, whose size is then that of
        the points with weight. ``learn=("ard", "landmarks")``, or with settings
        ``Training("ard, landmarks", epochs=50)``. Needs ``pip install "bagwise[learn]"``.
    random_state : int, numpy Generator or RandomState
        Seed of everything random; the default gives the same features every time.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.linear_model import RidgeCV
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 50)
    >>> bags = [rng.normal(0, scale, (30, 1)) for scale in y]
    >>> model = make_pipeline(KernelEmbedding(20), RidgeCV()).fit(bags, y)
    >>> model.predict([rng.normal(0, 1.5, (1000, 1))]).round(1)
    array([1.6])

    Strings, by the letters that they share:

    >>> def shared(x, y):
    ...     return [[len(set(a) & set(b)) for b in y] for a in x]
    >>> KernelEmbedding(3, kernel=shared).fit_transform([["cat", "act"], ["dog"]]).shape
    (2, 3)
    """

    _column: ClassVar[str] = "landmark"
    _number: ClassVar[str] = "n_landmarks"

    def __init__(
        self,
        n_landmarks: int | str | None = "auto",
        *,
        kernel: Kernel | str | Callable[..., Any] = "rbf",
        landmarks: Any = "kmeans",
        function_landmarks: Any = None,
        bandwidth: float | str = "auto",
        standardize: bool = True,
        output: str = "mean",
        learn: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.landmarks = landmarks
        self.function_landmarks = function_landmarks
        self.bandwidth = bandwidth
        self.standardize = standardize
        self.output = output
        self.learn = learn
        self.random_state = random_state

    def _maker(
        self, points: Points, scaling: Scaling, rng: np.random.Generator, default: int
    ) -> Callable[[Kernel], Features]:
        n, how = whole_or_auto("n_landmarks", self.n_landmarks, self._name), self.landmarks
        own = isinstance(self._kernels(points.shape[1])[0], UserKernel)
        if not isinstance(how, str):
            u = self._given(how, points, scaling, "landmarks")
        elif how in ("kmeans", "random") and own:
            u = drawn_landmarks(points, n, rng, default)
        elif how in ("kmeans", "random"):
            u = choose_landmarks(points, how, n, rng, default)
        else:
            raise wrong("landmarks", how, '"kmeans", "random" or an array', self._name)
        z = self.function_landmarks
        z = None if z is None else self._given(z, points, scaling, "function_landmarks")

        def make(kernel: Kernel) -> Features:
            if isinstance(kernel, UserKernel):
                kernel = kernel.probed(u)
            if isinstance(kernel, Linear) and n is None and isinstance(how, str):
                return LandmarkFeatures(kernel, scaling, spanning_landmarks(u), z)
            return LandmarkFeatures(kernel, scaling, u, z)

        return make

    @staticmethod
    def _given(landmarks: Any, points: Points, scaling: Scaling, name: str) -> Any:
        if not isinstance(points, Objects):
            return given_landmarks(landmarks, scaling, name)
        if not isinstance(landmarks, list | tuple | np.ndarray) or not len(landmarks):
            raise wrong(name, landmarks, "a list of objects, as the points are", "KernelEmbedding")
        return landmarks if isinstance(landmarks, Objects) else Objects.of(landmarks)


class FourierEmbedding(BagEmbedding):
    """Mean of random Fourier features: φ(x) = cos, sin of ω_j·x, with ω from the kernel's spectrum.

    Parameters
    ----------
    n_features : int or "auto"
        Number of features, rounded up to an even one; "auto": 60, in a Gaussian process 200.
    kernel, bandwidth, standardize, output, random_state
        As in :class:`KernelEmbedding`.

    References
    ----------
    Rahimi, Recht (2007), Random features for large-scale kernel machines.

    Examples
    --------
    >>> FourierEmbedding(4).fit_transform([[[0.0], [1.0]], [[2.0]]]).shape
    (2, 4)
    """

    _column: ClassVar[str] = "wave"
    _number: ClassVar[str] = "n_features"

    def __init__(
        self,
        n_features: int | str | None = "auto",
        *,
        kernel: Kernel | str = "rbf",
        bandwidth: float | str = "auto",
        standardize: bool = True,
        output: str = "mean",
        random_state: Any = 0,
    ) -> None:
        self.n_features = n_features
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.standardize = standardize
        self.output = output
        self.random_state = random_state

    def _maker(
        self, points: Points, scaling: Scaling, rng: np.random.Generator, default: int
    ) -> Callable[[Kernel], Features]:
        n, seed = whole_or_auto("n_features", self.n_features, self._name), int(rng.integers(2**63))
        m = -(-(n or default) // 2)
        return lambda kernel: FourierFeatures(
            scaling, kernel.frequencies(points.shape[1], m, np.random.default_rng(seed))
        )


class NetworkEmbedding(BagEmbedding):
    """Mean of what a network makes of each point, trained end to end with the labels.

    φ(x) = tanh(W_L … tanh(W_1 x + b_1) … + b_L), averaged over a bag

    In an estimator it is trained with the model of its head, which knows the sizes of bags; then
    the head is fitted to the trained features, exactly. Needs ``pip install "bagwise[learn]"``.

    Parameters
    ----------
    n_features : int or "auto"
        Outputs of the network; "auto": 32. One of your own says it itself.
    network : "mlp", "conv" or one of your own
        "conv" is for images: layers of 3 × 3 filters, with averages over 2 × 2 pixels after each.
        Your own is a module that takes one point and is a tree of JAX, such as one of Equinox; a
        pair (parameters, apply) with apply(parameters, points (n, p)) of shape (n, d), whose
        parameters may be a function of a JAX key; or a function that returns one of these, which
        :func:`bagwise.load` is given again, as a file has the parameters and no code.
    hidden : tuple of int
        Widths of the layers before; of "conv" the numbers of their filters.
    image_shape : (height, width) or (height, width, channels)
        Of the images, row by row, in the first columns of a point. Other columns, such as the place
        of a patch, go to the last layer.
    standardize, output
        As in :class:`KernelEmbedding`.
    learn : "point_weights" or bagwise.inference.Training, optional
        Whether points are weighed too, and how the network is trained.
    random_state
        Seed of the layers where training starts.

    Examples
    --------
    >>> import bagwise
    >>> from bagwise.inference import Training
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 60)
    >>> bags = [rng.normal(0, scale, (30, 1)) for scale in y]
    >>> embedding = NetworkEmbedding(8, learn=Training(epochs=20))
    >>> model = bagwise.ShrinkageRegressor(embedding).fit(bags, y)
    >>> model.predict([rng.normal(0, 1.5, (1000, 1))]).round(1)
    array([1.5])
    """

    _column: ClassVar[str] = "output"
    _number: ClassVar[str] = "n_features"
    _always_learns: ClassVar[bool] = True
    kernel: ClassVar[Kernel] = Linear()  # type: ignore[misc]
    bandwidth: ClassVar[float] = 1.0  # type: ignore[misc]

    def __init__(
        self,
        n_features: int | str | None = "auto",
        *,
        network: Any = "mlp",
        hidden: Any = (64,),
        image_shape: Any = None,
        standardize: bool = True,
        output: str = "mean",
        learn: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.n_features = n_features
        self.network = network
        self.hidden = hidden
        self.image_shape = image_shape
        self.standardize = standardize
        self.output = output
        self.learn = learn
        self.random_state = random_state

    def _maker(
        self, points: Points, scaling: Scaling, rng: np.random.Generator, default: int
    ) -> Callable[[Kernel], Features]:
        n = whole_or_auto("n_features", self.n_features, self._name) or NETWORK_OUTPUTS
        hidden = self.hidden if isinstance(self.hidden, tuple | list) else (self.hidden,)
        if not all(isinstance(width, int | np.integer) and width > 0 for width in hidden):
            raise wrong(
                "hidden", self.hidden, "whole numbers > 0, a width for each layer", self._name
            )
        features: Features
        shape: tuple[int, ...] = ()
        if not isinstance(self.network, str):
            features = UserNetworkFeatures.drawn(scaling, self.network, int(rng.integers(2**31)))
            return lambda kernel: features
        if choice("network", self.network, NETWORKS, self._name) == "conv":
            shape = check_image_shape(self.image_shape, points.shape[1])
        elif self.image_shape is not None:
            raise wrong("image_shape", self.image_shape, 'None, but for network="conv"', self._name)
        features = NetworkFeatures.drawn(scaling, [*hidden, n], rng, shape)
        return lambda kernel: features


def _lacks_bandwidth(kernel: Kernel) -> bool:
    return kernel.has_bandwidth and kernel.bandwidth is None


def need_covariance(stats: BagStats, remedy: str) -> None:
    """Raise if the bags do not show how much points of a bag differ, and so how much to shrink."""
    if stats.within_cov is None:
        raise InvalidBagsError.because(
            "every bag has one point",
            "some bags with two points or more, to see how much points of a bag differ",
            remedy,
        )


def as_embedding(value: Any) -> BagEmbedding:
    """Return an estimator's embedding, or raise unless it is one."""
    if not isinstance(value, BagEmbedding):
        raise wrong("embedding", value, "KernelEmbedding(...) or FourierEmbedding(...)")
    return value


def qualified(estimator: Any, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with ``embedding__`` before those that only the embedding knows.

    Examples
    --------
    >>> from bagwise import ShrinkageRegressor
    >>> qualified(ShrinkageRegressor(), {"n_landmarks": 5, "prior": "kernel"})
    {'embedding__n_landmarks': 5, 'prior': 'kernel'}
    """
    known = estimator.get_params()
    return {
        name if name in known or f"embedding__{name}" not in known else f"embedding__{name}": value
        for name, value in params.items()
    }
