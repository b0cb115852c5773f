"""Fit of Gaussian processes: one, or one for each of many classes, which share their scales."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bagwise.heads.base import ClassHeads, heads_of, some_of
from bagwise.heads.gp import Drawn, GPDraws, GPHead
from bagwise.inference.gp_evidence import (
    LEAST_GAIN,
    GPProblem,
    Slopes,
    maximise_settled,
    settle,
    settled_curvature,
)
from bagwise.inference.gp_scales import ScaleDraws, draw_scales, sample_scales
from bagwise.inference.second_level import Scales
from bagwise.inference.settings import NUTS

# Problems of the same bags: of one process, or of each class against the rest.
Problems = tuple[GPProblem, ...]

# Bags on which kernels and bandwidths are compared, and groups of sizes there. Steps of the search
# for scales: from the middle of their priors, and, which is enough to see what is out of the
# question, from the scales of another kernel; then those of kernels that are not. Of log evidence a
# step has to gain so much there as long as kernels are compared.
TRIAL_BAGS = 300
TRIAL_GROUPS = 4
TRIAL_STEPS = 15
NEAR_STEPS = 3
TRIAL_GAIN = 0.05

# Bags up to which the process is exact; of more, so many are the basis.
EXACT_BAGS = 3000
BASIS_BAGS = 1000

# Points up to which the best kernels are compared on all bags, as far as the process is exact: the
# fit to them is then the last. Of more, to sum all features of two takes longer than that. It has
# to be where some points of a bag nearly determine its label (residuals a seventh of the labels'
# deviations): then only all of them tell kernels that do from kernels that nearly do.
COMPARED_POINTS = 100_000
COMPARED_IF_KNOWN = 2_000_000
NEARLY_KNOWN = -1.4

# Bags of the search for scales. Of classes and counts slopes are those of the scales before, so it
# goes in rounds, until one gains little of log evidence; a few steps follow with all bags of the
# basis, if the settled process gains by them.
SEARCH_BAGS = 700
ROUNDS = 6
ROUND_STEPS = 40
ROUND_GAIN = 0.02
LAST_STEPS = 4

# Of real labels settled processes are sought with fewer bags, and then with up to so many times as
# many, until all of the basis are among them. The curvature that was learnt before says there how
# far to go, and a step has to gain more.
SETTLED_BAGS = 400
MORE_BAGS = 4
MOST_STEPS = 60
LAST_GAIN = 0.5

# Bags up to which scales are averaged over by default: of more they are known well enough.
AVERAGED_BAGS = 200

# Draws of the scales by NUTS by default: where noise is large it is known well, and asks for
# smaller steps than the mode. And how many of them have a process, of memory that grows with the
# bags' square.
SCALE_DRAWS = NUTS(chains=2, draws=600, warmup=150, target_accept=0.95)
PROCESSES = 32


def compares_all(n_bags: int, n_points: int, least_loss: float = np.inf) -> bool:
    """Whether the best kernels are compared on all bags with all of their points.

    ``least_loss`` is −log evidence per bag of the best of them, as far as it was tried.
    """
    most = COMPARED_IF_KNOWN if least_loss < NEARLY_KNOWN else COMPARED_POINTS
    return n_bags <= EXACT_BAGS and n_points <= most


def try_out(problems: Problems, near: GPHead | None = None) -> Any:
    """Fit to some of the bags, to see what the features are worth.

    ``near`` is a process with other features of these bags: a search from its scales is short.
    """
    some, steps, curve = _in_trial(problems), TRIAL_STEPS, None
    if near is not None:
        some, steps = tuple(each.from_near(near.scales) for each in some), NEAR_STEPS
        curve = near.curve
    head = _joined(tuple(GPHead.at(each, each.start, np.inf, curve) for each in some))
    if near is None:
        head = _again(head, problems, some, steps, TRIAL_GAIN)
    return _again(head, problems, some, steps, TRIAL_GAIN)


def try_on(head: Any, problems: Problems) -> Any:
    """Go on with features of which it is not clear yet that others are better."""
    return _again(head, problems, _in_trial(problems), TRIAL_STEPS, TRIAL_GAIN)


def on_more(head: Any, problems: Problems) -> Any:
    """Fit to as many bags as a search for scales can have, starting at what is known."""
    some = _at_most(problems, SEARCH_BAGS)
    return _settled(_again(head, problems, some, TRIAL_STEPS, TRIAL_GAIN), problems, some)


def resumed(problems: Problems, near: GPHead) -> Any:
    """Return processes at the scales of one with the same features of fewer points."""
    some = tuple(
        replace(each, start=near.scales, center=each.start)
        for each in _at_most(problems, SEARCH_BAGS)
    )
    head = _joined(tuple(GPHead.at(each, near.scales, np.inf, near.curve) for each in some))
    return _settled(head, problems, some)


def refined(head: Any, problems: Problems, *, spread: bool = True, tails: str = "no") -> Any:
    """Fit until little changes, and then to all bags or those of the basis, and the spread."""
    n = len(problems[0].labels)
    basis = problems if n <= EXACT_BAGS else _at_most(problems, BASIS_BAGS)
    head = (_at_rest if _real(problems) else _in_rounds)(head, problems, basis)
    pairs = list(zip(heads_of(head), problems, strict=True))
    options = {"induce": n > EXACT_BAGS, "spread": spread, "tails": tails}
    return _joined(tuple(each.finished(problem, **options) for each, problem in pairs))


def _real(problems: Problems) -> bool:
    """Whether labels are real numbers: the gradient of settled processes is for these."""
    return problems[0].likelihood is None


def _at_rest(head: Any, problems: Problems, basis: Problems) -> Any:
    """Search scales such that the bag part is that of the process itself."""
    problem, n = problems[0], SETTLED_BAGS
    if problem.free:  # slopes that move are another matter than those that are held
        curve = settled_curvature(head.known_to(problem, _in_trial(problems)[0]))
        head = replace(head, curve=curve)
    head = _settled_best(head, problem, _at_most(basis, n)[0], MOST_STEPS, LEAST_GAIN)
    while n < len(basis[0].labels):
        n *= MORE_BAGS
        head = _settled_best(head, problem, _at_most(basis, n)[0], LAST_STEPS, LAST_GAIN)
    return head


def _settled_best(
    head: GPHead, problem: GPProblem, part: GPProblem, most_steps: int, gain: float
) -> GPHead:
    """Search from where a process is, with the curvature that it knows of."""
    known = head.known_to(problem, part)
    return GPHead.at(*maximise_settled(known, most_steps, gain))


def _in_rounds(head: Any, problems: Problems, basis: Problems) -> Any:
    """Search scales in rounds, each with the slopes of the one before; the best settled counts."""
    parts = _at_most(problems, SEARCH_BAGS)
    best = _settled(head, problems, parts)
    for _ in range(ROUNDS):
        found = _settled(_again(best, problems, parts, ROUND_STEPS), problems, parts)
        gain = (best.loss - found.loss) * len(parts[0].labels)
        best = found if gain > 0 else best
        if gain < ROUND_GAIN:
            break
    if len(basis[0].labels) == len(parts[0].labels):
        return best
    moved = _again(best, problems, basis, LAST_STEPS)
    either = (_settled(each, problems, basis) for each in (best, moved))
    return min(either, key=lambda each: each.loss)


def _settled(head: Any, problems: Problems, parts: Problems) -> Any:
    """Return processes at the same scales whose bag part is that of their own slopes."""
    found = tuple(map(_settled_one, heads_of(head), problems, parts))
    loss = float(np.mean([each.loss for each in found]))  # the prior of the scales is in each
    return _joined(tuple(replace(each, loss=loss) for each in found))


def _settled_one(head: GPHead, problem: GPProblem, part: GPProblem) -> GPHead:
    part = head.known_to(problem, part)
    order = part.by_group
    at = settle(part.take(order), head.scales)
    slopes = np.empty_like(at.slopes)
    slopes[order] = at.in_what_is_said
    prior, _ = part.minus_log_prior(head.scales.vector(part.free))
    loss = (at.loss + prior) / len(part.labels)
    return GPHead.at(replace(part, slopes=slopes), head.scales, loss, head.curve, at.moved)


def averaged(head: Any, problems: Problems, rng: np.random.Generator) -> Any:
    """Return processes at scales that the labels leave open, around those of the largest evidence.

    Of real labels. Spread and tails stay those of the largest evidence.
    """
    (problem,) = problems
    part = head.known_to(problem, _at_most(problems, SEARCH_BAGS)[0])
    if not part.free:
        return head
    processes = draw_scales(part, rng)

    def drawn(scales: Scales, slopes: Slopes) -> Drawn:
        found = GPHead.at(replace(part, slopes=slopes), scales, head.loss)
        return Drawn.of(_of_all(found, problem))

    values = {n: np.array([[getattr(scales, n) for scales, _ in processes]]) for n in part.free}
    return GPDraws(head, tuple(drawn(*each) for each in processes), ScaleDraws(values, None))


def _of_all(head: GPHead, problem: GPProblem) -> GPHead:
    """Return the process of all bags on the basis of one of some of them."""
    if len(head.alpha) == len(problem.labels):
        return head
    return head.finished(problem, induce=True, spread=False, tails="no")


def sampled(head: Any, problems: Problems, settings: NUTS, rng: np.random.Generator) -> Any:
    """Draw the scales, around those of the largest evidence, and return a process at some of them.

    What else was fitted stays: slopes, spread and tails are those of the largest evidence. With as
    many bags as a search has; of more, these are the basis of all.
    """
    heads, parts = heads_of(head), _at_most(problems, SEARCH_BAGS)
    parts = tuple(map(GPHead.known_to, heads, problems, parts))
    if not parts[0].free:
        return head
    coarse = tuple(replace(part, most_groups=TRIAL_GROUPS) for part in parts)
    draws = sample_scales(coarse, settings, rng)

    def at(scales: Scales, mode: GPHead, problem: GPProblem, part: GPProblem) -> GPHead:
        found = _of_all(GPHead.at(part, scales, mode.loss), problem)
        return replace(found, spread=mode.spread, dof=mode.dof)

    def drawn(*of: Any) -> GPDraws:
        mode = at(of[0].scales, *of)
        some = (replace(mode.scales, **each) for each in draws.some(PROCESSES))
        return GPDraws(mode, tuple(Drawn.of(at(scales, *of)) for scales in some), draws)

    return _joined(tuple(map(drawn, heads, problems, parts)))


def _again(
    head: Any, problems: Problems, parts: Problems, steps: int, gain: float = LEAST_GAIN
) -> Any:
    """Fit to a part of the bags, starting at what is known and with its slopes."""
    three = zip(heads_of(head), problems, parts, strict=True)
    known = tuple(each.known_to(problem, part) for each, problem, part in three)
    return _at_best(known, steps, gain)


def _at_best(problems: Problems, steps: int, gain: float) -> Any:
    """Fit at the scales of the largest evidence, which of many classes is the sum of theirs."""
    scales, loss, curve = problems[0].maximise(steps, problems[1:], gain)
    return _joined(tuple(GPHead.at(each, scales, loss / len(problems), curve) for each in problems))


def _joined(heads: tuple[GPHead | GPDraws, ...]) -> Any:
    return heads[0] if len(heads) == 1 else ClassHeads(heads)


def _in_trial(problems: Problems) -> Problems:
    """Return the problems of the bags on which kernels are compared."""
    return tuple(replace(each, most_groups=TRIAL_GROUPS) for each in _take(problems, TRIAL_BAGS))


def _take(problems: Problems, most: int) -> Problems:
    some = some_of(len(problems[0].labels), most)
    return tuple(problem.take(some) for problem in problems)


def _at_most(problems: Problems, most: int) -> Problems:
    """Return the problems, of some of their bags if they have too many."""
    return problems if len(problems[0].labels) <= most else _take(problems, most)
