"""GP head: a Gaussian process on the posterior of the embedding, linear and nonlinear in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int

from bagwise.embedding.posterior import EmbeddingModel, EmbeddingPosterior
from bagwise.embedding.sums import BagStats
from bagwise.heads.base import MIN_NOISE, LearningStart, Response
from bagwise.inference.gp_evidence import GPProblem, Sizing, same_group
from bagwise.inference.gp_scales import ScaleDraws
from bagwise.inference.inducing import induce_classes, induce_labels, induce_latent
from bagwise.inference.residuals import Spread, Tails
from bagwise.inference.second_level import Coordinates, Inputs, Scales, SecondLevelKernel
from bagwise.likelihoods.base import ClassLikelihood
from bagwise.likelihoods.probit import Probit
from bagwise.predictions.latent import Latent

# Nodes on the way from the average bag to a bag, over which the gradient is averaged.
NODES = 32

# Where features are learnt: variances of f and its length by the evidence at the start, labels of
# unit variance and embeddings of unit norm; noise is not begun at 0, which it would hardly leave.
START_NOISE = 1e-3
LEAST_PRIOR_SCALE = 1e-6

NO_SPREAD = Spread(np.zeros(2), np.ones(2), np.zeros(6))


# What is seen of the bag part, at least and at most; beyond, bags that are cut are others. How many
# bags that it is right, at every size, is worth, steps of Newton's method to what is seen, and the
# share of the noise that may turn out to be the bag's.
SHARES = (0.25, 2.0)
SHARE_PSEUDO_BAGS = 20.0
SHARE_STEPS = 20
MOST_OF_NOISE = 0.8


@dataclass(frozen=True, eq=False)
class GPHead:
    """f ~ GP(0, κ) on embeddings known up to N(a_i, C_i); κ has expectations in closed form.

    mean_i = k_i·α,   weights_i = K_ii − k_i^T P k_i,   bag_i = Σ_k g_ik² C_ik

    with k_i = E κ(i, basis), K_ii = E κ for two bags like i, and g_i the gradient of the mean.

    If bags come in groups, y_i = f_i + b_group + noise with b ~ N(0, g²): k_i has g² more at the
    bags of its group, and K_ii g². So weights_i has all of g² for a bag of a group that is not
    known, and what is left of it else.

    Attributes
    ----------
    model : EmbeddingModel;  scales : Scales;  sizing : Sizing
    basis : Inputs, the bags that predictions are made of
    alpha : (m,);  precision : (m, m), P
    spread : Spread
    loss : −log evidence per bag
    of_classes : whether latent values are those of classes
    dof : degrees of freedom of Student's t, or infinity: Gaussian
    members : (m,), the group of each bag of the basis, or None. Then the last column of a design
        with one more than the basis has is that of the bags asked for, −1 if it is not known
    curve : (k, k), curvature of −log evidence per bag in the scales, in units of their priors, as
        far as searches have learnt it: see GPProblem. None once the fit is finished
    moved : how far the last repetition would still have moved a bag part or, by expectation
        propagation, a label's part
    bag_share : of the bag part, that is seen where bags are cut in two; the rest counts as noise
    share_slope : of the log of that share, in standardised log N
    label_var : variance of the labels, which are standardised, or of latent values of counts: the
        most that fewer points than a bag has leave open
    """

    model: EmbeddingModel
    scales: Scales
    sizing: Sizing
    basis: Inputs
    alpha: Float64[np.ndarray, " m"]
    precision: Float64[np.ndarray, "m m"]
    spread: Spread
    loss: float
    of_classes: bool
    dof: float = np.inf
    bag_share: float = 1.0
    share_slope: float = 0.0
    label_var: float = 1.0
    members: Int[np.ndarray, " m"] | None = None
    curve: Float64[np.ndarray, "k k"] | None = None
    moved: float = 0.0

    @classmethod
    def at(
        cls,
        problem: GPProblem,
        scales: Scales,
        loss: float,
        curve: Float64[np.ndarray, "k k"] | None = None,
        moved: float = 0.0,
    ) -> GPHead:
        """Return the exact process at some scales."""
        state, found = problem.fit(scales)
        return cls(
            problem.model,
            scales,
            problem.sizing,
            state.inputs,
            found.alpha,
            found.precision,
            NO_SPREAD,
            loss,
            isinstance(problem.likelihood, ClassLikelihood),
            members=problem.members,
            curve=curve,
            moved=max(moved, found.moved),
        )

    def known_to(self, problem: GPProblem, part: GPProblem) -> GPProblem:
        """Return a part of a problem, to start here and with slopes and curvature found here."""
        slopes = self._slopes_at(part)
        return replace(
            part, start=self.scales, center=problem.start, slopes=slopes, curve=self.curve
        )

    def finished(self, problem: GPProblem, *, induce: bool, spread: bool, tails: str) -> GPHead:
        """Return the process of all bags, if there are more than the basis has; spread and tails.

        Parameters
        ----------
        tails : "no", "auto" or "always", whether Student's t takes the place of the Gaussian
        """
        head = replace(self, curve=None)  # which was for searches
        if induce:
            head, mean, squares = head._induced(problem)
        else:
            mean, squares = head._left_out(problem)
        if problem.likelihood is not None:
            return head if self.of_classes else replace(head, label_var=head._latent_var())
        head = head._fit_spread(problem, mean, squares) if spread else head
        return head if tails == "no" else head._fit_tails(problem, mean, squares, tails)

    def _latent_var(self) -> float:
        """Return how much latent values vary from bag to bag of the basis."""
        mean = SecondLevelKernel(self.scales).between(self.basis, self.basis) @ self.alpha
        bag = np.sum(self._steep(self.basis) * self.basis.var[self.basis.group_of], axis=1)
        return float(mean.var() + bag.mean())

    def _steep(self, inputs: Inputs) -> Float64[np.ndarray, "n c"]:
        """Return squares of the slopes of the mean."""
        return SecondLevelKernel(self.scales).slope(inputs, self.basis, self.alpha) ** 2

    def _slopes_at(self, problem: GPProblem) -> Float64[np.ndarray, "n c"]:
        """Return the slopes of the mean at the bags of a problem, in what they say."""
        state = problem.state(self.scales)
        slope = SecondLevelKernel(self.scales).slope(state.inputs, self.basis, self.alpha)
        return slope * state.coordinates.units * (1.0 - state.slack)

    def _left_out(self, problem: GPProblem) -> Residuals:
        """Return the mean of each label given the others, and the square of what it is away.

        That is α_i/P_ii, of variance 1/P_ii.
        """
        precision = np.diagonal(self.precision)
        away = np.divide(self.alpha, precision, out=np.zeros_like(self.alpha), where=precision > 0)
        return problem.labels - away, away**2 * precision

    def _fit_spread(
        self,
        problem: GPProblem,
        mean: Float64[np.ndarray, " n"],
        squares: Float64[np.ndarray, " n"],
    ) -> GPHead:
        """Fit the spread to the squares of standardised residuals."""
        log_size = self.sizing(problem.sizes)
        return replace(self, spread=Spread.fit(mean, log_size, squares, problem.weights))

    def _fit_tails(
        self,
        problem: GPProblem,
        mean: Float64[np.ndarray, " n"],
        squares: Float64[np.ndarray, " n"],
        tails: str,
    ) -> GPHead:
        """Fit Student's t to what the spread leaves of the residuals."""
        squares = squares / self.spread(mean, self.sizing(problem.sizes))
        found = Tails.fit(squares, problem.weights, always=tails == "always")
        return replace(self, spread=self.spread.scaled(found.factor), dof=found.dof)

    def _induced(
        self, problem: GPProblem
    ) -> tuple[GPHead, Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
        """Return the process of all bags on the basis of this one, and residuals left out."""
        problem = replace(problem, slopes=self._slopes_at(problem))
        kernel, state = SecondLevelKernel(self.scales), problem.state(self.scales)
        gram = kernel.between(self.basis, self.basis)
        cross, bag = kernel.between(state.inputs, self.basis), problem.bag_var(state)
        if self.members is not None and problem.members is not None:
            gram += self.scales.group * same_group(self.members, self.members)
            cross += self.scales.group * same_group(problem.members, self.members)
        noise, weights, labels = problem.noise(self.scales), problem.weights, problem.labels
        if isinstance(problem.likelihood, Probit):
            found = induce_classes(gram, cross, bag, weights, labels, problem.likelihood)
        elif problem.likelihood is not None:
            found = induce_latent(gram, cross, bag, noise, weights, labels, problem.likelihood)
        else:
            noise = bag + noise
            found = induce_labels(gram, cross, noise, labels)
        moved = max(self.moved, found.moved)
        head = replace(self, alpha=found.alpha, precision=found.precision, moved=moved)
        # left out, a residual is 1/(1 − leverage) as far away, of variance noise/(1 − leverage)
        away = (labels - found.mean) / (1.0 - found.leverage)
        return head, labels - away, away**2 * (1.0 - found.leverage) / np.maximum(noise, MIN_NOISE)

    def checked_by_halves(
        self, whole: BagStats, halves: Sequence[BagStats], design: Float64[np.ndarray, "n r"]
    ) -> GPHead:
        """Return the head with a bag part that is true of bags that are cut in two.

        If mean_k is what is expected of a label given k points of the bag, its square change to
        mean_N is what the variance falls by: E (mean_k − mean_N)² = bag_k − bag_N. Slopes are one
        reason why it is not so, another that the evidence cannot tell a label that is less certain
        in small bags for other reasons, and a third that points of large bags may scatter less than
        those of small ones. So the share that is seen is exp(a + b·log N), with a and b as in
        Poisson regression, drawn to 0. The variance in all stays as it is: what one part gets, or
        loses, is the noise's.

        Parameters
        ----------
        whole : statistics of some bags;  halves : of the halves of each
        design : (n, r), of the bags
        """
        posterior = self.embed(whole)
        log_size = self.sizing(posterior.sizes[posterior.size_of])
        mean, bag = self._mean_and_bag(posterior, design, log_size)
        seen, stated = np.zeros_like(mean), np.zeros_like(mean)
        for half in halves:
            there, left_open = self._mean_and_bag(self.embed(half), design, log_size)
            seen += (there - mean) ** 2
            stated += np.maximum(left_open - bag, 0.0)
        if not stated.sum() > MIN_NOISE * len(mean) or not seen.sum() > 0.0:
            return self
        level, slope = log_share(seen, stated, log_size)
        return replace(self, bag_share=float(np.exp(level)), share_slope=slope)

    def share(self, log_size: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        """Return the share of the bag part that is seen, of bags of some standardised log sizes."""
        return np.clip(self.bag_share * np.exp(self.share_slope * log_size), *SHARES)

    def _mean_and_bag(
        self,
        posterior: EmbeddingPosterior,
        design: Float64[np.ndarray, "n r"],
        log_size: Float64[np.ndarray, " n"],
    ) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
        """Return means and, by slopes, bag parts; log N as an input is given."""
        inputs = replace(
            self._inputs(posterior, design), log_size=_within_reach(log_size, self.basis.log_size)
        )
        bag = np.sum(self._steep(inputs) * inputs.var[inputs.group_of], axis=1)
        return SecondLevelKernel(self.scales).between(inputs, self.basis) @ self.alpha, bag

    def embed(self, stats: BagStats) -> EmbeddingPosterior:
        """Return the posterior at η and τ."""
        return self.seen(self.model.posterior(stats))

    def seen(self, posterior: EmbeddingPosterior) -> EmbeddingPosterior:
        """Return the posterior at η and τ, given it at others."""
        scale = np.array([self.scales.prior_scale])
        return replace(posterior, scale=scale, sampling=self.scales.sampling)

    def latent(self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]) -> Latent:
        """Predict from the posterior of each bag's embedding."""
        inputs, kernel = self._inputs(posterior, design), SecondLevelKernel(self.scales)
        cross = kernel.between(inputs, self.basis) + self._shared(design)
        mean = cross @ self.alpha
        prior = kernel.variance(inputs) - kernel.nugget(inputs) + self.scales.group
        weights = np.maximum(prior - np.sum((cross @ self.precision) * cross, axis=1), 0.0)
        coordinates = Coordinates(self.model.spectrum, self.scales)
        steep = self._steep(inputs)
        bag = np.sum(steep * coordinates.var_of(posterior)[posterior.var_of], axis=1)
        own = np.arange(len(mean))
        if self.of_classes:  # the link has a noise of its own
            return Latent(mean[None], bag[None], own, weights, np.zeros(1))
        sizes = posterior.sizes[posterior.size_of]
        noise = self.scales.noise + self.scales.size_noise * self.sizing.smallness(sizes)
        as_it_is = np.sum(steep * inputs.var[inputs.group_of], axis=1)
        most = 1.0 + MOST_OF_NOISE * noise / np.maximum(as_it_is, MIN_NOISE)
        share = np.minimum(self.share(inputs.log_size), most)
        noise, factor = noise + (1.0 - share) * as_it_is, self.spread(mean, inputs.log_size)
        # slopes reach further than labels do: a bag of which nothing is seen may have any of them
        bag = np.minimum(
            factor * share * bag, np.maximum(factor * share * as_it_is, self.label_var)
        )
        return Latent(
            mean[None],
            bag[None],
            own,
            factor * weights,
            np.maximum(factor * noise, MIN_NOISE)[None],
        )

    def response(
        self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]
    ) -> Response:
        """Return the gradient, averaged over the straight way from the average bag to the first.

        The bag keeps its size on that way; covariates go along with the embedding.
        """
        bag = self._inputs(posterior.take([0]), design[:1])
        nodes, shares = np.polynomial.legendre.leggauss(NODES)
        way, shares = (1.0 + nodes) / 2.0, shares / 2.0
        start = self.basis.design.mean(axis=0)  # F of the average bag
        on_way = Inputs(
            way[:, None] * bag.mean,
            bag.var,
            np.zeros(NODES, dtype=np.int64),
            np.tile(bag.log_size, NODES),
            start + way[:, None] * (bag.design - start),
        )
        kernel = SecondLevelKernel(self.scales)
        slope = shares @ kernel.slope(on_way, self.basis, self.alpha)
        gamma = shares @ kernel.design_slope(on_way, self.basis, self.alpha)
        shared = self._shared(design[:1])
        mean = float(((kernel.between(bag, self.basis) + shared) @ self.alpha)[0])
        coordinates = Coordinates(self.model.spectrum, self.scales)
        said = coordinates.mean(posterior.take([0]))[0]
        level = mean - float(slope @ bag.mean[0]) - float(gamma @ bag.design[0])
        slope = posterior.slope((slope * _share(bag.mean[0], said) * coordinates.units)[None])
        gamma = gamma * _share(bag.design[0], design[0, : bag.design.shape[1]])
        return Response(slope, self.model.prior_mean, level, gamma)

    def learning_start(self) -> LearningStart:
        """Return where features are learnt from: by the evidence, at the scales found."""
        scales = self.scales
        least = {"noise": START_NOISE, "size_noise": START_NOISE, "prior_scale": LEAST_PRIOR_SCALE}
        names = ("linear", "gauss", "length", "noise", "size_noise", "prior_scale")
        start = {name: np.log(max(getattr(scales, name), least.get(name, 0.0))) for name in names}
        start["size_noise"] += np.log(self.sizing.typical)  # of c/N
        start |= {"tilt": scales.tilt}
        return LearningStart(start, sampling=scales.sampling, evidence=True)

    def _shared(self, design: Float64[np.ndarray, "n r"]) -> Float64[np.ndarray, "n m"] | float:
        """Return what the groups add to the kernel between bags and the basis."""
        if self.members is None or design.shape[1] == self.basis.design.shape[1]:
            return 0.0
        return self.scales.group * same_group(design[:, -1].astype(np.int64), self.members)

    def _inputs(self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]) -> Inputs:
        design = design[:, : self.basis.design.shape[1]]  # without the group
        coordinates = Coordinates(self.model.spectrum, self.scales)
        sizes = posterior.sizes[posterior.size_of]
        return Inputs(
            _within_reach(coordinates.mean(posterior), self.basis.mean),
            coordinates.var(posterior.slack),
            posterior.size_of,
            _within_reach(self.sizing(sizes), self.basis.log_size),
            _within_reach(design, self.basis.design),
        )


def log_share(
    seen: Float64[np.ndarray, " n"],
    stated: Float64[np.ndarray, " n"],
    log_size: Float64[np.ndarray, " n"],
) -> tuple[float, float]:
    """Return a and b with E seen_i = stated_i exp(a + b·log N_i), drawn to 0.

    They minimise Σ_i {stated_i e^(a + b·log N_i) − seen_i (a + b·log N_i)}, in units of the mean
    that is seen, plus what some bags of average size would say for which both are 0.

    Examples
    --------
    >>> log_sizes, seen = np.tile([-1.0, 1.0], 5000), np.tile([4.0, 1.0], 5000)
    >>> a, b = log_share(seen, np.full(10000, 2.0), log_sizes)
    >>> round(abs(a), 2), round(float(np.exp(b)), 2)
    (0.0, 0.5)
    """
    unit, middle = float(seen.mean()), float(np.average(log_size, weights=stated))
    inputs = np.column_stack([np.ones_like(log_size), log_size - middle])
    at = np.array([np.log(unit / stated.mean()), 0.0])
    for _ in range(SHARE_STEPS):
        expected = stated * np.exp(inputs @ at) / unit
        slope = inputs.T @ (expected - seen / unit) + SHARE_PSEUDO_BAGS * at
        bend = inputs.T @ (expected[:, None] * inputs) + SHARE_PSEUDO_BAGS * np.eye(2)
        at = at - np.clip(np.linalg.solve(bend, slope), -1.0, 1.0)
    return float(at[0] - at[1] * middle), float(at[1])


Residuals = tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]


def _within_reach(
    asked: Float64[np.ndarray, "..."], seen: Float64[np.ndarray, "..."]
) -> Float64[np.ndarray, "..."]:
    """Return inputs that are no further from those seen than once more the range of these.

    Beyond, the linear part would extrapolate without end from what may be two bags.
    """
    low, high = seen.min(axis=0), seen.max(axis=0)
    return np.clip(asked, 2.0 * low - high, 2.0 * high - low)


def _share(
    within: Float64[np.ndarray, " c"], asked: Float64[np.ndarray, " c"]
) -> Float64[np.ndarray, " c"]:
    """Return the share of inputs that is within reach."""
    return np.divide(within, asked, out=np.ones_like(asked), where=asked != 0)


@dataclass(frozen=True, eq=False)
class Drawn:
    """What of a process depends on its scales.

    Attributes
    ----------
    scales : Scales;  basis : Inputs;  alpha : (m,);  precision : (m, m)
    """

    scales: Scales
    basis: Inputs
    alpha: Float64[np.ndarray, " m"]
    precision: Float64[np.ndarray, "m m"]

    @classmethod
    def of(cls, head: GPHead) -> Drawn:
        """Take it from a process."""
        return cls(head.scales, head.basis, head.alpha, head.precision)


@dataclass(frozen=True, eq=False)
class GPDraws:
    """Processes on the same bags, equally probable; a prediction is their mixture.

    Attributes
    ----------
    mode : GPHead at the scales of the largest evidence, which has all that the draws share
    drawn : of some of the draws
    draws : ScaleDraws, all of them
    """

    mode: GPHead
    drawn: tuple[Drawn, ...]
    draws: ScaleDraws

    @cached_property
    def heads(self) -> list[GPHead]:
        """The process of each draw."""
        return [replace(self.mode, **vars(each)) for each in self.drawn]

    @property
    def loss(self) -> float:
        """−log evidence per bag, at the mode."""
        return self.mode.loss

    @property
    def dof(self) -> float:
        """Degrees of freedom of Student's t, or infinity."""
        return self.mode.dof

    @property
    def scales(self) -> Scales:
        """Posterior means of the scales."""
        means = {name: float(x.mean()) for name, x in self.draws.scales.items()}
        return replace(self.mode.scales, **means)

    def embed(self, stats: BagStats) -> EmbeddingPosterior:
        """Return the posterior at η and τ of the mode; each draw puts its own in their place."""
        return self.mode.embed(stats)

    def latent(self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]) -> Latent:
        """Predict from the posterior of each bag's embedding, under each draw."""
        each = [head.latent(head.seen(posterior), design) for head in self.heads]
        return Latent(
            np.concatenate([one.mean for one in each]),
            np.concatenate([one.bag_var for one in each]),
            each[0].bag_of,
            np.stack([one.weights_var for one in each]),
            np.concatenate([one.noise_var for one in each]),
        )

    def response(
        self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]
    ) -> Response:
        """Return the average over the draws."""
        each = [head.response(head.seen(posterior), design) for head in self.heads]
        return Response(
            np.mean([one.slope for one in each], axis=0),
            self.mode.model.prior_mean,
            float(np.mean([one.level for one in each])),
            np.mean([one.gamma for one in each], axis=0),
        )
