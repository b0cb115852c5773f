"""Explanation: what each point, feature direction and column of a bag adds to its prediction.

For a bag of one size the mean of a prediction is an average over the bag's points x_j:

    mean = baseline + Σ covariates + Σ_j share_j ψ(x_j),      ψ(x) = v·(φ(x) − m0)

where ψ is the witness function of the bag. The sum is also one over the features, with
contributions v_l (μ̂_l − m0_l), and over the columns of the input
(:mod:`bagwise.features.integrated_gradients`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64, Shaped

from bagwise.bags.bags import Bags, as_bags, n_axes
from bagwise.bags.stacked import deviation_factor
from bagwise.bags.validation import Objects, holds_objects, show
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidBagsError
from bagwise.features.integrated_gradients import split_by_column
from bagwise.features.kernels import UserKernel
from bagwise.features.maps import Features, FourierFeatures, LandmarkFeatures
from bagwise.features.network import NetworkFeatures, UserNetworkFeatures

# Kernel values worked on at once: 16 MB.
BLOCK_ELEMENTS = 1 << 21

# What `top` can list.
KINDS = ("points", "landmarks", "columns", "covariates")

# Contributions below this share of the largest are told apart by rounding only.
NEGLIGIBLE = 1e-9

# Share of the contributions by which their sum may differ from the prediction.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Witness:
    """ψ(x) = v·φ(x) − offset: what a bag would add to the baseline if all its points were x.

    Attributes
    ----------
    features : φ;  slope : (d,), v in units of the label;  offset : v·m0
    beside : mean of the bag (p,) and a factor, if features are of points beside their deviations
        from it, or None
    """

    features: Features
    slope: Float64[np.ndarray, " d"]
    offset: float
    beside: tuple[Float64[np.ndarray, " p"], float] | None = None

    @classmethod
    def of(
        cls, features: Features, slope: Float64[np.ndarray, " d"], offset: float, bag: Bags
    ) -> Witness:
        """Return that of one bag, as the features see it."""
        if features.centred != "deviations":
            return cls(features, slope, offset)
        middle = bag.shares @ bag.points[:, : bag.n_features // 2]
        return cls(
            features, slope, offset, (middle, float(deviation_factor(bag.effective_sizes)[0]))
        )

    def seen(self, points: Shaped[np.ndarray, "n p"]) -> Shaped[np.ndarray, "n s"]:
        """Return points as features see them: perhaps beside their deviations."""
        if self.beside is None:
            return points
        middle, factor = self.beside
        return np.hstack([points, factor * np.abs(points - middle)])

    def shown(self, bag: Bags) -> Bags:
        """Return a bag that features see without its deviations."""
        if self.beside is None:
            return bag
        p, names = bag.n_features // 2, bag.feature_names
        return bag.with_points(bag.points[:, :p], None if names is None else names[:p])

    def by_column(self, points: Shaped[np.ndarray, "n p"]) -> Float64[np.ndarray, "n p"]:
        """Split ψ at points by column; what a column adds by its deviation is its own."""
        found = split_by_column(self.features, self.slope, self.seen(points))
        return found if self.beside is None else np.add(*np.hsplit(found, 2))

    def __call__(self, points: Shaped[np.ndarray, "n p"]) -> Float64[np.ndarray, " n"]:
        """Return ψ at points in the units of the input."""
        return self.at(self.seen(points))

    def at(self, points: Shaped[np.ndarray, "n s"]) -> Float64[np.ndarray, " n"]:
        """Return ψ at points as features see them."""
        step = max(1, BLOCK_ELEMENTS // len(self.slope))
        blocks = [points[start : start + step] for start in range(0, len(points), step)]
        return np.concatenate([self.features(block) @ self.slope for block in blocks]) - self.offset


@dataclass(frozen=True, eq=False)
class Directions:
    """The features, or what stands in their place, with what each adds.

    Attributes
    ----------
    values : (d,), contributions;  names : of each;  places : (d, p) in units of the input, objects,
        or None
    """

    values: Float64[np.ndarray, " d"]
    names: tuple[str, ...]
    places: Float64[np.ndarray, "d p"] | Objects | None

    @classmethod
    def of(cls, features: Features, values: Float64[np.ndarray, " d"]) -> Directions:
        """Name the features."""
        if isinstance(features, LandmarkFeatures):
            names = tuple(f"landmark {i}" for i in range(len(values)))
            return cls(values, names, features.places)
        if isinstance(features, NetworkFeatures | UserNetworkFeatures):
            return cls(values, tuple(f"output {i}" for i in range(len(values))), None)
        assert isinstance(features, FourierFeatures)
        m = len(features.frequencies)
        names = tuple(f"{wave} {i}" for wave in ("cosine", "sine") for i in range(m))
        return cls(values, names, None)


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why the prediction of one bag is what it is: contributions, in units of the label.

    prediction = baseline + Σ covariates + Σ points
               = baseline + Σ covariates + Σ landmarks
               = baseline + Σ covariates + reference + Σ columns

    Attributes
    ----------
    id, size : of the bag
    prediction : predicted mean; of classifiers the mean of the latent value, see ``target``
    baseline : prediction of the average bag with average covariates, the intercept included
    covariates : (c,), what the bag's covariates add by not being average
    points : (N,), what each point adds: its share of the bag times the witness function there
    landmarks : (d,), what each feature adds; ``landmark_names``, and where they are (d, p):
        ``landmark_places``, None of Fourier features. Without features (exact sums) each training
        bag is a direction.
    reference : witness function at the average training point, from which columns are counted
    columns : (p,), what each column of the input adds by not being that of the average point
    point_columns : (N, p), the same for each point
    bag_points : (N, p), the points
    shares : (N,), weight of each point, given or learnt, over that of the bag
    target : what is predicted, in words

    Examples
    --------
    >>> from bagwise import ShrinkageRegressor
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 60)
    >>> model = ShrinkageRegressor().fit([rng.normal(0, s, (20, 1)) for s in y], y)
    >>> why = model.explain([[0.1], [-0.3], [4.0]])
    >>> why.points.round(1)  # points near zero speak for a small spread
    array([-0.1, -0.1,  0.6])
    >>> bool(np.isclose(why.baseline + why.points.sum(), why.prediction))
    True
    """

    bags: Bags
    function: Witness
    directions: Directions
    prediction: float
    baseline: float
    covariates: Float64[np.ndarray, " c"]
    target: str = "label"

    @property
    def id(self) -> Any:
        """Id of the bag."""
        return self.bags.ids[0]

    @property
    def size(self) -> int:
        """Number of points N."""
        return self.bags.n_points

    @property
    def bag_points(self) -> Shaped[np.ndarray, "n p"]:
        """The points (N, p)."""
        return self.bags.points

    @cached_property
    def shares(self) -> Float64[np.ndarray, " n"]:
        """Share of each point in the bag (N,): 1/N without weights."""
        return self.bags.shares

    @property
    def weighed(self) -> bool:
        """Whether points of the bag count more than others."""
        return bool(self.shares.max() > (1.0 + ROUNDING) * self.shares.min())

    @cached_property
    def points(self) -> Float64[np.ndarray, " n"]:
        """Contribution of each point (N,)."""
        found = self.shares * self.function(self.bags.points)
        total = self.baseline + self.covariates.sum() + found.sum()
        scale = abs(self.baseline) + np.abs(self.covariates).sum() + np.abs(found).sum()
        if abs(total - self.prediction) > ROUNDING * scale:
            warnings.warn(
                f"contributions add up to {total:.6g}, not to {self.prediction:.6g} as predicted: "
                "the bags that the model was fitted to hardly differ, so its weights are so large "
                "that contributions are rounding error. Scale the columns, or take out points that "
                "are far from all others.",
                BagwiseWarning,
                stacklevel=2,
            )
        return found

    @property
    def landmarks(self) -> Float64[np.ndarray, " d"]:
        """Contribution of each feature (d,)."""
        return self.directions.values

    @property
    def landmark_names(self) -> tuple[str, ...]:
        """Name of each feature (d,)."""
        return self.directions.names

    @property
    def landmark_places(self) -> Float64[np.ndarray, "d p"] | Objects | None:
        """Landmarks (d, p) in units of the input, if there are any."""
        return self.directions.places

    @property
    def by_column(self) -> bool:
        """Whether contributions are split by column: not those of a kernel of the user's."""
        return not isinstance(getattr(self.function.features, "kernel", None), UserKernel)

    def need_columns(self) -> None:
        """Raise if nothing is known of columns."""
        if not self.by_column:
            raise BagwiseError.because(
                "what columns add was asked of a model with a kernel of your own, whose slope is "
                "not known",
                "points, landmarks or covariates",
                "Use explanation.points, or top(5).",
            )

    @cached_property
    def reference(self) -> float:
        """Witness function at the average training point."""
        self.need_columns()
        features = self.function.features
        return float(self.function.at(features.scaling.center[None])[0])  # type: ignore[attr-defined]

    @property
    def reference_point(self) -> Float64[np.ndarray, " p"]:
        """The average training point (p,)."""
        self.need_columns()
        features = self.function.features
        return features.scaling.center[: self.bags.n_features]  # type: ignore[attr-defined]

    @cached_property
    def point_columns(self) -> Float64[np.ndarray, "n p"]:
        """Contribution of each column of each point (N, p)."""
        self.need_columns()
        return self.shares[:, None] * self.function.by_column(self.bags.points)

    @cached_property
    def columns(self) -> Float64[np.ndarray, " p"]:
        """Contribution of each column (p,)."""
        return self.point_columns.sum(axis=0)

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns; x0, x1, ... if they have none."""
        return _names(self.bags.feature_names, self.bags.n_features, "x")

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """Names of the covariates; c0, c1, ... if they have none."""
        return _names(self.bags.covariate_names, self.bags.n_covariates, "c")

    def witness(self, points: Any) -> Float64[np.ndarray, " m"]:
        """Return ψ at any points (m, p): what the bag would add if all its points were there."""
        if self.bags.of_objects:
            held = list(points) if isinstance(points, list | tuple) else []
            return self.function(Objects.of(held)) if held else np.zeros(0)
        array = np.asarray(points, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != self.bags.n_features:
            raise BagwiseError.because(
                f"points have shape {array.shape}",
                f"(m, {self.bags.n_features}), the columns of the bag",
                "Give one row per point; np.reshape(x, (-1, 1)) makes them of one column.",
            )
        return self.function(array) if len(array) else np.zeros(0)

    def top(self, n: int = 5, *, of: str = "points") -> list[tuple[Any, float]]:
        """Return names and contributions of the n strongest points (or features, columns, ...).

        Points are named by their row in the bag. ``of`` is "points", "landmarks", "columns" or
        "covariates".
        """
        if of not in KINDS:
            raise BagwiseError.because(
                f"of is {of!r}", " or ".join(f'"{kind}"' for kind in KINDS), 'Try "points".'
            )
        values = getattr(self, of)
        names = range(len(values)) if of == "points" else getattr(self, f"{of[:-1]}_names")
        order = np.argsort(-np.abs(values), kind="stable")[: max(n, 0)]
        return [(names[i], float(values[i])) for i in order]

    def lines(self) -> list[str]:
        """Return a few sentences that say the same."""
        found = [self._headline(), self._about_points()]
        if self.weighed:
            found.append(self._about_weights())
        if self.bags.n_features > 1 and self.by_column:
            start = f"At the average point all of them would add {self.reference:+.3g}; from there"
            found.append(_ranking(start, self.top(3, of="columns")))
        if self.bags.n_covariates:
            found.append(_ranking("Of the covariates,", self.top(3, of="covariates")))
        return found

    def _headline(self) -> str:
        gap = self.prediction - self.baseline
        return (
            f"The predicted {self.target} of bag {show(self.id)} is {self.prediction:.4g}: "
            f"{abs(gap):.3g} {'above' if gap >= 0 else 'below'} the average bag's "
            f"{self.baseline:.4g}."
        )

    def _about_points(self) -> str:
        (row, value), *_ = self.top(1)
        if self.size == 1:
            return f"Its only point pushes the prediction {_way(value)}, by {value:+.3g}."
        least = NEGLIGIBLE * abs(value)
        up, down = int(np.sum(self.points > least)), int(np.sum(self.points < -least))
        if self.size in (up, down):
            start = f"All of its {self.size:,} points push the prediction {_way(value)}"
        else:
            start = f"{up:,} of its {self.size:,} points push the prediction up and {down:,} down"
        named = f" ({self.bags.points[row, 0]!r:.40})" if self.bags.of_objects else ""
        return f"{start}; the strongest, row {row}{named}, by {value:+.3g}."

    def _about_weights(self) -> str:
        row, worth = int(np.argmax(self.shares)), 1.0 / np.sum(self.shares**2)
        return (
            f"Its points have weights: row {row} has the most, {self.shares[row]:.0%} of all; "
            f"together they are worth {worth:.3g} points of equal weight."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return numbers, lists and strings, ready for JSON."""
        bag_id = self.id
        return {
            "id": bag_id.item() if isinstance(bag_id, np.generic) else bag_id,
            "size": self.size,
            "target": self.target,
            "prediction": self.prediction,
            "baseline": self.baseline,
            "reference": self.reference if self.by_column else None,
            "covariates": dict(zip(self.covariate_names, self.covariates.tolist(), strict=True)),
            "columns": dict(zip(self.column_names, self.columns.tolist(), strict=True))
            if self.by_column
            else {},
            "points": self.points.tolist(),
            "shares": self.shares.tolist(),
            "landmarks": dict(zip(self.landmark_names, self.landmarks.tolist(), strict=True)),
        }

    def __repr__(self) -> str:
        return "\n".join([f"Explanation of bag {show(self.id)}", *self.lines()])


def one_bag(X: Any, bag: Any = None) -> Bags:
    """Return the bag to be explained: X itself, or the one of this id, else at this position.

    Parameters
    ----------
    X : 2-D array or data frame with the points of a bag, or anything that ``as_bags`` takes
    bag : id or position of the bag; may be left out if there is one

    Examples
    --------
    >>> one_bag([[[1.0]], [[2.0], [3.0]]], 1).sizes
    array([2])
    """
    single = not isinstance(X, Bags) and (holds_objects(X) or n_axes(X) == 2)
    if isinstance(X, list) and X and isinstance(X[0], list) and holds_objects(X[0]):
        # a list of bags of objects
        single = False
    bags = Bags.from_list([X]) if single else as_bags(X)
    if bag is None:
        if bags.n_bags > 1:
            raise InvalidBagsError.because(
                f"there are {bags.n_bags} bags",
                "one, to be explained",
                f"Say which by its id or position, for example bag={show(bags.ids[0])}.",
            )
        return bags
    position = _position(bags, bag)
    return bags[position : position + 1]


def _position(bags: Bags, bag: Any) -> int:
    """Return where the bag of this id is, or if there is none, the position itself."""
    found = [i for i, name in enumerate(bags.ids.tolist()) if name == bag]
    if len(found) > 1:
        raise InvalidBagsError.because(
            f"{len(found)} bags have the id {bag!r}",
            "an id that one bag has",
            f"Choose the bag before: explain(bags[{found[0]} : {found[0] + 1}]).",
        )
    if found:
        return found[0]
    whole = isinstance(bag, int | np.integer) and not isinstance(bag, bool)
    if whole and -bags.n_bags <= bag < bags.n_bags:
        return int(bag) % bags.n_bags
    raise InvalidBagsError.because(
        f"there is no bag {show(bag)} among {bags.n_bags} bags",
        f"an id such as {show(bags.ids[0])}, or a position below {bags.n_bags}",
        "See bags.ids.",
    )


def _names(names: tuple[str, ...] | None, count: int, letter: str) -> tuple[str, ...]:
    return tuple(f"{letter}{j}" for j in range(count)) if names is None else names


def _way(value: float) -> str:
    return "up" if value >= 0 else "down"


def _ranking(what: str, strongest: list[tuple[Any, float]]) -> str:
    (name, value), *others = strongest
    rest = [f"{other} ({amount:+.3g})" for other, amount in others]
    return f"{what} {name} counts most ({value:+.3g})" + (
        f", then {' and '.join(rest)}." if rest else "."
    )
