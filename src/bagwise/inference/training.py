"""Training: the search for features, with all bags at once or in minibatches.

Two engines move the parameters of :mod:`.learning`: L-BFGS on all bags, and Adam on minibatches.
Both go in epochs. After each the loss on bags held out is noted, the parameters of the least one
are kept, and the whole state is written to a checkpoint, if there is one, from which an interrupted
search goes on as if nothing had happened.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bagwise._utils.atomic import replacing
from bagwise._utils.work import Progress, one_thread, wanted
from bagwise.bags.bags import Bags, BagStream
from bagwise.exceptions import BagwiseError, BagwiseWarning
from bagwise.features.learnable import LAYER
from bagwise.features.maps import Features, LandmarkFeatures
from bagwise.inference.history import History
from bagwise.inference.learning import (
    Batch,
    LearningProblem,
    evidence,
    log_likelihoods,
    loss_of_bags,
    start,
    statistics,
)
from bagwise.inference.settings import Training

# Loss that has grown by so much per bag, from where it began, diverges: labels, of unit variance,
# are e times less likely than before anything was learnt.
DIVERGED = 1.0
LOWER_RATE = 0.1
LEAST_RATE = 1e-3  # of the rate asked for, below which there is no use in lowering it
LAST_RATE = 0.05  # of the rate at the start, by then

# Share of the bags that is held out where nothing is said of it.
HELD_OUT = 0.2

# Without bags held out, steps in which the loss per bag has to fall by more than a trifle.
STEPS_TO_FALL = 3
TRIFLE = 1e-5

# Halvings of a step of L-BFGS, and the share of the fall by its slope that a step has to have.
MOST_HALVINGS = 20
ENOUGH_FALL = 1e-4

# Steps by which the scales of the evidence are found before features move, so that what features
# gain is told from what scales do: the head has scales of another kernel.
SCALES_FIRST = 10

# Points that are worked on at once by default, and numbers of them; of more, minibatches are.
MOST_AT_ONCE = 400_000
MOST_NUMBERS = 1 << 26

State = dict[str, Any]


def held_out(bags: Bags, weights: np.ndarray, features: Features, settings: Training) -> np.ndarray:
    """Return the bags that are held out: those named, or a share, drawn at random, that count.

    None are where a prior says how far to go: Training(validation=...) says where that is.
    """
    if isinstance(bags, BagStream):
        raise BagwiseError.because(
            "features are to be learnt from bags that are read from a file",
            "bags in memory",
            "Learn from a part of the bags, and fit to all of them with the landmarks learnt.",
        )
    ids, counted, asked = bags.ids, np.flatnonzero(weights > 0), settings.validation
    if asked is None:
        alone = settings.what == ("point_weights",) and isinstance(features, LandmarkFeatures)
        at_once = settings.engine == "lbfgs" or not _many(bags, settings)
        asked = 0.0 if alone and at_once and settings.engine != "adam" else HELD_OUT
    if asked == 0.0:
        return np.zeros(0, dtype=np.int64)
    if isinstance(asked, tuple):
        named, there = set(asked), ids.tolist()
        out = np.flatnonzero([bag_id in named for bag_id in there])
        if missing := sorted(map(repr, named.difference(there))):
            raise BagwiseError.because(
                f"no bag has the id {missing[0]}, which is in Training(validation=...)",
                "ids of the bags that the model is fitted to",
                "Leave it out, or add the bag: Bags.concatenate([train, validation]).",
            )
        n_out, said = len(out), f"validation names {len(out)} of {len(ids)} bags"
    else:
        n_out = round(asked * len(counted))
        said = f"validation={asked:g} of {len(counted)} bags are {n_out}"
        out = np.sort(np.random.default_rng(settings.seed).permutation(counted)[:n_out])
    if n_out < 1 or len(np.setdiff1d(counted, out)) < 2:
        raise BagwiseError.because(
            said,
            "at least 1 bag held out and 2 to learn from",
            "Give more bags, or others in Training(validation=...).",
        )
    return out


def learn(
    parts: tuple[LearningProblem, LearningProblem],
    out: np.ndarray,
    bags: Bags,
    scaled: Callable[[np.ndarray], np.ndarray],
    settings: Training,
) -> tuple[Features, History]:
    """Learn features from bags; return them, and how it went.

    Bags held out say after how many epochs to end. So many are then made with all bags. Without
    bags held out all of them say so, with the prior.

    Parameters
    ----------
    parts : problems that start from heads fitted without the bags held out, and to all bags
    out : bags held out
    bags : Bags in memory;  scaled : points ↦ scaled points
    settings : Training
    """
    few, whole = parts
    make = Minibatches if _by_batches(whole, bags, settings) else Whole
    none = np.zeros(0, dtype=np.int64)
    with jax.enable_x64(settings.precision == "float64"), one_thread("blas"):
        engine = make(whole)
        best, history = Search(engine, TrainingData(few, bags, scaled, settings, out)).run()
        if len(out) and history.best and history.end != "interrupted":
            data = TrainingData(whole, bags, scaled, settings, none)
            best, _ = Search(engine, data, history.best).run()
        return whole.features.finish(jax.tree.map(np.float64, best["features"])), history


def _by_batches(problem: LearningProblem, bags: Bags, settings: Training) -> bool:
    """Return whether minibatches are used; refuse where the loss is no sum over bags."""
    if settings.engine == "adam" and problem.evidence:
        raise BagwiseError.because(
            'engine="adam" for a model that learns by its evidence, which is no sum over bags',
            'engine="lbfgs", which has all bags at once',
            "Use Training(engine='lbfgs'), or a shrinkage model.",
        )
    if settings.engine != "auto" or problem.evidence:
        return settings.engine == "adam"
    return _many(bags, settings) or f"{LAYER}0" in problem.features.start  # a network


def _many(bags: Bags, settings: Training) -> bool:
    """Return whether there are more points than are worked on at once by default."""
    points = int(np.minimum(bags.sizes, settings.bag_points).sum())
    return points > MOST_AT_ONCE or points * bags.n_features > MOST_NUMBERS


@dataclass(eq=False)
class TrainingData:
    """Bags as arrays for JAX, some of them held out.

    Attributes
    ----------
    problem, bags, scaled, settings : as in :func:`learn`
    out : (m,), bags held out; none, if all epochs are to be made
    """

    problem: LearningProblem
    bags: Bags
    scaled: Callable[[np.ndarray], np.ndarray]
    settings: Training
    out: np.ndarray

    @cached_property
    def kept(self) -> np.ndarray:
        """Bags that features are learnt from."""
        return np.setdiff1d(np.flatnonzero(self.problem.sample_weight > 0), self.out)

    @cached_property
    def held_weights(self) -> np.ndarray:
        """What each bag held out counts; those that are there for that alone, 1."""
        weights = self.problem.sample_weight[self.out]
        return np.where(weights > 0, weights, 1.0)

    def batch(self, which: np.ndarray, rng: np.random.Generator, rows: int | None = None) -> Batch:
        """Return some bags; of each at most so many points, drawn at random.

        Shares are made anew, so that a bag's size is that of the points that were drawn.
        """
        bags, most = self.bags, self.settings.bag_points
        place = np.concatenate([self._rows(i, most, rng) for i in which.tolist()])
        owner = np.repeat(np.arange(len(which)), np.minimum(bags.sizes[which], most))
        weights = np.ones(len(place)) if bags.weights is None else bags.weights[place]
        total = np.bincount(owner, weights, len(which))
        points, shares = self.scaled(bags.points[place]), weights / np.maximum(total, 1e-300)[owner]
        missing = 0 if rows is None else rows - len(place)
        return {
            "points": np.pad(points, ((0, missing), (0, 0))),
            "owner": np.pad(owner, (0, missing), constant_values=len(which) - 1),
            "shares": np.pad(shares, (0, missing)),
            "labels": self.problem.labels[:, which],
            "design": self.problem.design[which],
            "counted": self.problem.sample_weight[which],
            "n_kept": float(len(self.kept)),
            "weight_var": float(self.problem.weight_var),
        }

    def _rows(self, bag: int, most: int, rng: np.random.Generator) -> np.ndarray:
        first, size = int(self.bags.offsets[bag]), int(self.bags.sizes[bag])
        if size <= most:
            return np.arange(first, first + size)
        return np.sort(first + rng.choice(size, most, replace=False))

    def all_bags(self) -> Batch:
        """Return all bags; those held out do not count."""
        everyone = np.arange(self.bags.n_bags)
        batch = self.batch(everyone, np.random.default_rng(self.settings.seed))
        told = np.zeros(self.bags.n_bags)
        told[self.out] = self.held_weights
        return batch | {"counted": batch["counted"] * (told == 0), "held_out": told}

    def epoch(self, number: int) -> Iterator[Batch]:
        """Return the minibatches of an epoch, in an order of its own, all of one shape."""
        rng = np.random.default_rng([self.settings.seed, number])
        order, size = rng.permutation(self.kept), min(self.settings.batch_bags, len(self.kept))
        largest = np.sort(np.minimum(self.bags.sizes, self.settings.bag_points))[::-1]
        for first in range(0, len(order) - size + 1, size):
            yield self.batch(order[first : first + size], rng, int(largest[:size].sum()))

    def fingerprint(self) -> str:
        """Return what tells this search from others: data, settings and where it starts."""
        told, start = hashlib.sha256(), self.problem.features.start
        data = (self.bags.points, self.bags.offsets, self.problem.labels, self.out)
        for array in (*data, self.problem.sample_weight, *(start[name] for name in sorted(start))):
            told.update(np.ascontiguousarray(array).tobytes())
        asked = {k: v for k, v in vars(self.settings).items() if k not in ("checkpoint", "epochs")}
        told.update(json.dumps(asked, sort_keys=True).encode())
        return told.hexdigest()


class Whole:
    """All bags at once, by L-BFGS: an epoch is a step.

    What is compiled is the same whichever bags are held out.
    """

    has_rate = False

    def __init__(self, problem: LearningProblem) -> None:
        import optax

        # Where to, by optax; how far, by trying: to compile a search along the line with all of
        # the model in it takes longer than most searches.
        self._optimiser = optax.scale_by_lbfgs()
        self._by_evidence = problem.evidence

        def both(params: Any, batch: Batch) -> tuple[Any, Any]:
            if problem.evidence:
                return evidence(problem, params, batch)
            seen = statistics(problem.features, params["features"], batch)
            told, out = log_likelihoods(problem, params, batch, seen), batch["held_out"]
            loss, _ = loss_of_bags(problem, params, batch)
            return loss, -jnp.sum(out * told) / jnp.maximum(jnp.sum(out), 1e-9)

        def slope(params: Any, fixed: Any, batch: Batch) -> Any:
            return jax.grad(lambda moving: both(moving | fixed, batch)[0])(params)

        self._slope, self._both = jax.jit(slope), jax.jit(both)
        self._way = jax.jit(self._optimiser.update)

    def begin(self, params: Any, data: TrainingData) -> State:
        """Return the state at the start."""
        self._batch = jax.tree.map(jnp.asarray, data.all_bags())
        self._n = float(len(data.kept))  # the loss of all bags has steps of about unit length
        moving, fixed = _split(params)
        state = {"params": moving, "fixed": fixed, "opt": self._optimiser.init(moving), "rate": 1.0}
        state["losses"] = self.losses(state)
        for _ in range(SCALES_FIRST if self._by_evidence else 0):
            state, _, _ = self._step(state, ("head",))
        return state | {"opt": self._optimiser.init(moving)}

    def losses(self, state: State) -> tuple[float, float]:
        """Return the loss of the bags that count, and of those held out."""
        loss, out = self._both(state["params"] | state["fixed"], self._batch)
        return float(loss), float(out)

    def epoch(self, state: State, number: int) -> tuple[State, float, float]:
        """Make a step that lowers the loss, if there is one; return the losses after it."""
        return self._step(state, tuple(state["params"]))

    def _step(self, state: State, which: tuple[str, ...]) -> tuple[State, float, float]:
        """Move some of the parameters."""
        params, fixed = state["params"], state["fixed"]
        loss, out = state["losses"]
        slope = self._slope(params, fixed, self._batch)
        slope = {
            k: jax.tree.map(lambda x, on=k in which: x * (self._n if on else 0.0), v)
            for k, v in slope.items()
        }
        way, opt = self._way(slope, state["opt"], params)
        if (fall := _product(slope, way)) <= 0.0:  # not downhill: the loss bent the other way
            way, opt = self._way(slope, self._optimiser.init(params), params)
            fall = _product(slope, way)
        for far in 0.5 ** np.arange(MOST_HALVINGS):
            tried = jax.tree.map(lambda x, w, far=far: x - far * w, params, way)
            found = self.losses(state | {"params": tried})
            if self._n * (loss - found[0]) >= ENOUGH_FALL * far * fall:
                params, (loss, out) = tried, found
                break
        else:
            opt = self._optimiser.init(params)
        return state | {"params": params, "opt": opt, "losses": (loss, out)}, loss, out


class Minibatches:
    """Some bags at a time, by Adam; Σ is a running average, and exact after each epoch."""

    has_rate = True

    def __init__(self, problem: LearningProblem) -> None:
        import optax

        self._optimiser = optax.inject_hyperparams(optax.adam)(1.0)

        def step(params: Any, opt: Any, fixed: Any, moving: Any, batch: Batch) -> tuple[Any, ...]:
            def loss(params: Any) -> Any:
                return loss_of_bags(problem, params | fixed, batch, moving)

            (value, moving), slope = jax.value_and_grad(loss, has_aux=True)(params)
            change, opt = self._optimiser.update(slope, opt, params)
            return optax.apply_updates(params, change), opt, moving, value

        def held_out(params: Any, moving: Any, batch: Batch) -> Any:
            mean, sizes, _, _ = statistics(problem.features, params["features"], batch)
            told = log_likelihoods(problem, params, batch, (mean, sizes, *moving))
            return -jnp.sum(batch["counted"] * told) / jnp.sum(batch["counted"])

        self._step, self._held_out = jax.jit(step), jax.jit(held_out)
        self._seen = jax.jit(lambda params, batch: statistics(problem.features, params, batch)[2:])

    def begin(self, params: Any, data: TrainingData) -> State:
        """Return the state at the start, with averages over the minibatches of an epoch."""
        self._data, rng = data, np.random.default_rng(data.settings.seed)
        if len(data.out):
            batch = data.batch(data.out, rng) | {"counted": data.held_weights}
        else:
            batch = next(data.epoch(0))
        self._out = jax.tree.map(jnp.asarray, batch)
        moving, fixed = _split(params)
        state = {"params": moving, "fixed": fixed, "rate": 1.0}
        return state | {"opt": self._optimiser.init(moving), "moving": self._averages(params, 0)}

    def _averages(self, params: Any, number: int) -> Any:
        """Return m0 and Σ at these parameters, over the minibatches of an epoch."""
        found = [self._seen(params["features"], batch) for batch in self._data.epoch(number)]
        return jax.tree.map(lambda *each: sum(each) / len(each), *found)

    def losses(self, state: State) -> tuple[float, float]:
        """Return the loss of the bags held out, or of a minibatch, twice: no epoch was made yet."""
        out = float(self._held_out(state["params"] | state["fixed"], state["moving"], self._out))
        return out, out

    def epoch(self, state: State, number: int) -> tuple[State, float, float]:
        """Go through all bags once; return the average loss on the way, and that held out."""
        settings, values = self._data.settings, []
        params, opt, moving = state["params"], state["opt"], state["moving"]
        cosine = 0.5 * (1.0 + np.cos(np.pi * min(number / settings.epochs, 1.0)))
        rate = settings.learning_rate * (LAST_RATE + (1.0 - LAST_RATE) * cosine)
        opt.hyperparams["learning_rate"] = jnp.asarray(rate * float(state["rate"]))
        for batch in self._data.epoch(number):
            params, opt, moving, value = self._step(params, opt, state["fixed"], moving, batch)
            values.append(float(value))
        state = state | {"params": params, "opt": opt, "moving": self._averages(params, number)}
        return state, float(np.mean(values)), self.losses(state)[1]


def _product(a: Any, b: Any) -> float:
    return float(sum(jax.tree.leaves(jax.tree.map(lambda x, y: jnp.sum(x * y), a, b))))


def _split(params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters that move and those that do not."""
    fixed = {name: params[name] for name in params if name == "basis"}
    return {name: params[name] for name in params if name != "basis"}, fixed


class Search:
    """Epochs of an engine, until bags held out gain no more; the best parameters are kept.

    Without bags held out all epochs are made, until a given one, or until the loss falls no more,
    and the last parameters are the best.
    """

    def __init__(
        self, engine: Whole | Minibatches, data: TrainingData, until: int | None = None
    ) -> None:
        self.engine, self.data = engine, data
        self.until, self.told = data.settings.epochs if until is None else until, until is not None
        self.judged = len(data.out) > 0
        self.state = engine.begin(start(data.problem), data)
        self.state["best"] = self.state["params"]
        first = engine.losses(self.state)
        self.history = History(
            (first[0],), (first[1],) if self.judged else (), "all epochs were made"
        )
        self.checkpoint = Checkpoint.of(data, self.told)
        if self.checkpoint is not None:
            self.state, self.history = self.checkpoint.load(self.state, self.history)

    def run(self) -> tuple[dict[str, Any], History]:
        """Make all epochs; return the best parameters, and the way there."""
        with Progress("learning features", self.until, wanted()) as bar:
            bar.advance(self.history.n_epochs)
            try:
                while self.goes_on():
                    bar.advance(self.epoch())
            except KeyboardInterrupt:
                self.history = self.history.ended("interrupted")
                _say(
                    f"learning was interrupted after {self.history.n_epochs} epochs: the best "
                    "features so far are kept. Fit again for more."
                )
        return self.state["best"], self.history

    def goes_on(self) -> bool:
        """Whether another epoch is to be made."""
        if self.history.end == "diverged" or self.history.n_epochs >= self.until:
            return False
        if self.judged and self.history.since_best >= self.data.settings.patience:
            self.history = self.history.ended("bags held out gained no more")
            return False
        if not self.judged and not self.told and self._fell_by() < TRIFLE:
            self.history = self.history.ended("the loss fell no more")
            return False
        return True

    def _fell_by(self) -> float:
        """Return by how much the loss fell in the last steps."""
        losses = self.history.train
        if len(losses) <= STEPS_TO_FALL or self.engine.has_rate:
            return np.inf
        return losses[-1 - STEPS_TO_FALL] - losses[-1]

    def epoch(self) -> int:
        """Make an epoch, or lower the rate if it diverges; return how many epochs were made."""
        after, loss, out = self.engine.epoch(self.state, self.history.n_epochs + 1)
        if not np.isfinite(loss + out) or loss > max(self.history.train[0], 0.0) + DIVERGED:
            self.go_slower()
            return 0
        history = self.history.then(loss, out)
        if history.since_best == 0 or not self.judged:
            after["best"] = after["params"]
        self.state, self.history = after, history
        if self.checkpoint is not None:
            self.checkpoint.save(self.state, self.history)
        return 1

    def go_slower(self) -> None:
        """Go back to the best parameters with a lower rate, if that is of use, and say so."""
        rate, has_rate = float(self.state["rate"]) * LOWER_RATE, self.engine.has_rate
        if not has_rate or rate < LEAST_RATE:
            self.history = self.history.ended("diverged")
            if has_rate:
                _say("learning of features diverged; the best features so far are kept.")
            return
        _say(
            f"learning of features diverged: it goes on from the best so far with {rate:g} times "
            "the learning rate that was asked for."
        )
        best = self.state["best"]
        again = self.engine.begin(best | self.state["fixed"], self.data)
        self.state = again | {"rate": rate, "best": best}


def _say(sentence: str) -> None:
    warnings.warn(sentence, BagwiseWarning, stacklevel=2)


class Checkpoint:
    """The state of a search in a file: numbers only, written whole or not at all."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path, self._fingerprint = path, fingerprint

    @classmethod
    def of(cls, data: TrainingData, again: bool) -> Checkpoint | None:
        """Return that of a search, if there is to be one; that with all bags again has another."""
        if data.settings.checkpoint is None:
            return None
        path = Path(data.settings.checkpoint)
        return cls(path.with_name(f"{path.name}.all") if again else path, data.fingerprint())

    def save(self, state: State, history: History) -> None:
        """Write the state."""
        leaves = jax.tree.leaves(state)
        arrays: dict[str, Any] = {f"leaf{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        arrays |= {"train": history.train, "validation": history.validation}
        arrays["fingerprint"] = self._fingerprint
        with replacing(self._path) as part, open(part, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)

    def load(self, state: State, history: History) -> tuple[State, History]:
        """Return the state of the file, if there is one; refuse that of another search."""
        if not self._path.exists():
            return state, history
        leaves, tree = jax.tree.flatten(state)
        try:
            with np.load(self._path, allow_pickle=False) as file:
                ours = str(file["fingerprint"]) == self._fingerprint
                arrays = [file[f"leaf{i}"] for i in range(len(leaves))] if ours else []
                losses = (
                    {k: tuple(file[k].tolist()) for k in ("train", "validation")} if ours else {}
                )
        except (OSError, ValueError, KeyError) as error:
            raise BagwiseError.because(
                f"{self._path} is no checkpoint, or not a whole one",
                "a file that Training(checkpoint=...) has written",
                "Remove it to start anew.",
            ) from error
        if not ours:
            raise BagwiseError.because(
                f"{self._path} is a checkpoint of other data, settings or features",
                "the same bags, labels, settings and embedding as when it was written",
                "Remove it to start anew, or give another name.",
            )
        same = [jnp.asarray(new, old.dtype) if hasattr(old, "dtype") else type(old)(new)
                for new, old in zip(arrays, leaves, strict=True)]  # fmt: skip
        return jax.tree.unflatten(tree, same), History(**losses, end=history.end)
