"""Learnt features: whether they are better than fixed ones, and what they cost.

    python -m benchmarks.learning gamma [--seeds 23 24] |
                                  attention [--draws 5] [--first 0] [--ours] [--models evidence] |
                                  digits [--part] [--seed 0] | text [--seed 0] |
                                  recipe [--seeds 23 24] | faces [--scale 1]

``gamma``: the paper's data, s5 = 25; the fixed grid's best bandwidth against bandwidth, scales of
columns and landmarks learnt from there, for the linear shrinkage model and the Gaussian process.
``attention``: BENCHMARKS' simulation, in which some points of a bag count more than others: rank
correlation with the truth, how well the heaviest points are found, coverage; beside Deep Sets and
attention-pooled multiple-instance learning.
``digits``: images of scikit-learn's digits as bags of their 4 × 4 patches, labelled by the digit as
a number: learnt landmarks and scales against fixed ones, mean-pooled Deep Sets and attention.
``--part``: of each image only some patches. ``--seed`` splits the images; what was tried was tried
on the first 1,200 images of seed 0, 900 of them to learn from; and of text, on the first 800 bags
of seed 1.
``text``: bags of words, each hashed by the letters in it, labelled by what the words say; the same.
``recipe``: the authors' recipe (Adam on minibatches, early stopping, fixed landmarks) against the
exact optimum of the same model.
``faces``: an epoch of minibatches on simulated faces, 19,545 bags of 4,096 features: time, memory.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import bagwise
from bagwise import Bags, KernelEmbedding
from bagwise.datasets.gamma import gamma_varying
from bagwise.inference import Training

Row = tuple[str, Callable[[], Any]]

# Most steps of a search on the gamma data, and models with their landmarks.
GAMMA_EPOCHS = 20
GAMMA = {
    "shrinkage": (bagwise.ShrinkageRegressor, 60, "rbf"),
    "gp": (bagwise.DistributionGPRegressor, 100, "additive-rbf"),
}


def scores(model: Any, bags: Bags, labels: np.ndarray) -> tuple[float, float]:
    """Return mean squared error and −log density per bag."""
    if hasattr(model, "predict_dist"):
        found = model.predict_dist(bags)
        mean, told = found.mean, found.log_prob(labels)
    else:
        mean, var = model.predict(bags)
        told = -0.5 * (np.log(2.0 * np.pi * var) + (labels - mean) ** 2 / var)
    return float(np.mean((mean - labels) ** 2)), float(-np.mean(told))


def gamma(seeds: list[int], names: list[str]) -> None:
    """Print validation and test scores with fixed and learnt features."""
    learnt = {
        "fixed": None,
        "bandwidth, ard": Training("bandwidth, ard", epochs=GAMMA_EPOCHS),
        "bandwidth, ard, landmarks": Training("bandwidth, ard, landmarks", epochs=GAMMA_EPOCHS),
    }
    print("seed  model      features                   val MSE/NLL    test MSE/NLL  epochs  CPU s")
    for seed in seeds:
        data = gamma_varying(seed=seed)
        for name in names:
            cls, n, kernel = GAMMA[name]
            for what, learn in learnt.items():
                if name == "gp" and what == "bandwidth, ard":
                    continue
                start = time.process_time()
                model = cls(KernelEmbedding(n, kernel=kernel, learn=learn))
                model.fit(data.train.bags, data.train.labels)
                took = time.process_time() - start
                (a, b), (c, d) = (
                    scores(model, part.bags, part.labels) for part in (data.validation, data.test)
                )
                best = 0 if model.history_ is None else model.history_.best
                found = f"{a:6.3f} {b:6.3f}  {c:6.3f} {d:6.3f}  {best:6d} {took:6.0f}"
                print(f"{seed}  {name:9s}  {what:26s} {found}", flush=True)


def attention_bags(seed: int, n: int = 1200) -> tuple[np.ndarray, ...]:
    """Draw points (n, 50, 30), counts, the truth u and the weights of points."""
    rng, size, p = np.random.default_rng(seed), 50, 30
    x = rng.normal(size=(n * size, p))
    x = (x - x.mean(axis=0)) / x.std(axis=0) / np.sqrt(p)
    logs = x @ rng.normal(size=p)
    logs = (logs * np.sqrt(0.8) / logs.std()).reshape(n, size)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    u = np.sum(weights * (x @ rng.normal(size=p)).reshape(n, size), axis=1)
    u = (u - u.mean()) * np.sqrt(0.5) / u.std()
    y = rng.binomial(2, 1.0 / (1.0 + np.exp(1.0 - u)))
    return x.reshape(n, size, p), y.astype(float), u, weights


def heavy(weights: np.ndarray) -> np.ndarray:
    """Return which points are among the heaviest tenth."""
    return (weights >= np.quantile(weights, 0.9)).ravel()


# A label is about the points of its bag, which are all there is, so that models whose embedding is
# not shrunk are its model.
ATTENTION = {
    "mean": (bagwise.ShrinkageRegressor, None),
    "shrinkage": (bagwise.ShrinkageRegressor, "point_weights"),
    "network": (bagwise.RBFNetworkRegressor, "point_weights"),
    "evidence": (bagwise.BayesianLinearRegressor, "point_weights"),
}


def attention(draws: range, ours: bool, models: list[str]) -> None:
    """Print rank correlation with u, AUC of the heaviest tenth of points, and coverage."""
    from scipy.stats import spearmanr
    from sklearn.metrics import roc_auc_score

    from benchmarks.attention_mil import AttentionMIL
    from benchmarks.deep_sets import DeepSets

    rows = []
    for seed in draws:
        x, y, u, weights = attention_bags(seed)
        train, test = Bags.from_array(x[:1000]), Bags.from_array(x[1000:])
        for make in () if ours else (DeepSets, AttentionMIL):
            start, rival = time.perf_counter(), make().fit(train, y[:1000])
            took, (mean, var) = time.perf_counter() - start, rival.predict(test)
            auc = np.nan
            if isinstance(rival, AttentionMIL):
                auc = roc_auc_score(heavy(weights[1000:]), rival.log_weights(test))
            rho = spearmanr(mean, u[1000:])[0]
            cover = np.mean(np.abs(y[1000:] - mean) <= 1.2816 * np.sqrt(var))
            rows.append((make.__name__, rho, auc, cover))
            print(
                f"draw {seed}  {make.__name__:14s} Spearman {rho:.3f}  AUC {auc:.3f}  "
                f"80 % cover {cover:.3f}  {took:.0f} s"
            )
        for name in models:
            cls, learn = ATTENTION[name]
            embedding = KernelEmbedding(kernel="linear", learn=learn)
            start = time.process_time()
            model = cls(embedding).fit(train, y[:1000])
            took, found = time.process_time() - start, model.predict_dist(test)
            auc, g = np.nan, model.features_.point_weights
            if g is not None:
                auc = roc_auc_score(heavy(weights[1000:]), model.features_(test.points) @ g)
            rho = spearmanr(found.mean, u[1000:])[0]
            low, high = found.interval(0.8).T
            cover = np.mean((low <= y[1000:]) & (y[1000:] <= high))
            rows.append((name, rho, auc, cover))
            print(
                f"draw {seed}  {name:14s} Spearman {rho:.3f}  AUC {auc:.3f}  "
                f"80 % cover {cover:.3f}  median size {np.median(found.sizes):.1f}  "
                f"{took:.0f} s of CPU",
                flush=True,
            )
    for name in dict.fromkeys(row[0] for row in rows):
        each = np.array([row[1:] for row in rows if row[0] == name])
        print(f"{name:14s} on average {each.mean(axis=0).round(3)} ± {each.std(axis=0).round(3)}")


def digit_bags(seed: int, part: bool = False) -> tuple[Bags, np.ndarray]:
    """Return images of digits as bags of patches, with the place of each, labelled by the digit.

    All 25 patches of each image; or a part of them, 2 to 25, as many as drawn at random.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images, rng = images.reshape(-1, 8, 8) / 16.0, np.random.default_rng(seed)
    places = np.array([(i, j) for i in range(5) for j in range(5)])
    order, bags = rng.permutation(len(images)), []
    for k in order:
        seen = places
        if part:
            size = int(np.exp(rng.uniform(np.log(2), np.log(26))))
            seen = places[rng.choice(25, size, replace=False)]
        patches = [images[k, i : i + 4, j : j + 4].ravel() for i, j in seen]
        bags.append(np.column_stack([patches, seen / 2.0 - 1.0]))
    return Bags.from_list(bags), labels[order].astype(float)


def digits(seed: int, part: bool) -> None:
    """Print test scores of the digit as a number, by learnt and fixed features and rivals."""
    linear, process = bagwise.ShrinkageRegressor, bagwise.DistributionGPRegressor
    moved = Training("bandwidth, ard, landmarks", engine="adam", epochs=30, learning_rate=0.02)
    found = Training("bandwidth, ard, landmarks", epochs=20)
    rows: list[Row] = [
        *_rivals(),
        ("linear, fixed landmarks", lambda: linear(KernelEmbedding(100))),
        ("linear, learnt landmarks", lambda: linear(KernelEmbedding(100, learn=moved))),
        ("process, fixed landmarks", lambda: process(KernelEmbedding(100))),
        ("process, 200 fixed ones", lambda: process(KernelEmbedding(200))),
        ("process, learnt landmarks", lambda: process(KernelEmbedding(100, learn=found))),
    ]
    bags, y = digit_bags(seed, part)
    _compare(rows, bags, y, 1200)


def _rivals() -> list[Row]:
    from benchmarks.attention_mil import AttentionMIL
    from benchmarks.deep_sets import DeepSets

    return [("deep sets", lambda: DeepSets()), ("attention", lambda: AttentionMIL())]


STEMS = 60
PREFIXES = {"": 1.0, "re": 1.0, "un": -1.0, "pre": 0.5, "dis": -0.5}
SUFFIXES = {"": 1.0, "s": 1.0, "ly": 0.3, "ness": 0.6, "est": 2.0, "ish": 0.2}


FILLERS = "the of and to in a is that it was for on are with as his they at be this from".split()


def text_bags(seed: int, n: int = 1200) -> tuple[Bags, np.ndarray]:
    """Return texts as bags of words, each hashed by its letters, labelled by what they say.

    A word is a prefix, a stem and a suffix, each with a factor: *un* turns its stem round, *est*
    doubles it. The label is the average over 200 such words, of which a bag has 2 to 40; and from
    none to four times as many that say nothing, *the*, *of* and the like.
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghiklmnoprstuvwz"))
    stems = ["".join(rng.choice(letters, 5)) for _ in range(STEMS)]
    says = rng.normal(size=STEMS)
    texts, y = [], np.zeros(n)
    for i in range(n):
        share = np.exp(rng.normal() * says)  # a text has a mood: it takes stems by what they say
        meant = rng.choice(STEMS, 200, p=share / share.sum())
        prefixes = rng.choice(list(PREFIXES), 200, p=[0.6, 0.1, 0.1, 0.1, 0.1])
        suffixes = rng.choice(list(SUFFIXES), 200)
        value = [PREFIXES[a] * SUFFIXES[b] for a, b in zip(prefixes, suffixes, strict=True)]
        y[i] = np.mean(np.array(value) * says[meant])
        size = int(np.exp(rng.uniform(np.log(2), np.log(40))))
        words = [prefixes[k] + stems[meant[k]] + suffixes[k] for k in range(size)]
        texts.append(words + rng.choice(FILLERS, rng.integers(0, 4 * size + 1)).tolist())
    hashing = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 3), n_features=64)
    return Bags.from_list([hashing.transform(words).toarray() for words in texts]), y


def text(seed: int) -> None:
    """Print test scores of what texts say, by learnt and fixed features and Deep Sets."""
    linear, process = bagwise.ShrinkageRegressor, bagwise.DistributionGPRegressor
    scales = Training("bandwidth, ard", epochs=20)
    weighed = Training("point_weights, bandwidth", engine="adam", epochs=20, learning_rate=0.05)
    rows: list[Row] = [
        *_rivals(),
        ("linear, fixed", lambda: linear(KernelEmbedding(100))),
        ("linear, weights of words", lambda: linear(KernelEmbedding(100, learn=weighed))),
        ("process, fixed", lambda: process(KernelEmbedding(100))),
        ("process, learnt scales", lambda: process(KernelEmbedding(100, learn=scales))),
    ]
    bags, y = text_bags(seed)
    _compare(rows, bags, y, 800)


def _compare(rows: list[Row], bags: Bags, y: np.ndarray, n_train: int) -> None:
    """Fit each model to the first bags, and print its scores on the others."""
    train, test = slice(0, n_train), slice(n_train, None)
    for name, make in rows:
        start, own = time.perf_counter(), time.process_time()
        model = make().fit(bags[train], y[train])
        took, own = time.perf_counter() - start, time.process_time() - own
        mse, nll = scores(model, bags[test], y[test])
        found = f"RMSE {mse**0.5:.3f}  NLL {nll:.3f}  {took:.0f} s, {own:.0f} of CPU"
        print(f"{name:26s} {found}", flush=True)


SPLITS = ("train", "validation", "test")


class Recipe:
    """The authors' search for what ShrinkageRegressor finds exactly.

    Features are fixed, so that bags are means, sizes and one covariance from the start. Adam goes
    from all weights 0 and all scales 1, and ends by the validation bags.
    """

    epochs, patience, size, rate = 300, 60, 100, 0.1

    def __init__(self, model: Any, data: Any) -> None:
        from bagwise.embedding.sums import summarise
        from bagwise.estimators.embeddings import COVARIANCE_FLOOR
        from bagwise.heads.base import Task
        from bagwise.heads.learning import learning_problem
        from bagwise.inference.learning import start

        self.data, self.n = data, len(data.train.labels)
        self.task = Task.of(data.train.bags, data.train.labels, None)
        fitted = learning_problem(
            model.head_, model.features_, data.train.bags, self.task, (), floor=COVARIANCE_FLOOR
        )
        begin = {name: np.zeros_like(value) for name, value in fitted.start.items()}
        self.problem = replace(fitted, start=begin)  # not where the exact search has ended
        self.stats = {k: summarise(getattr(data, k).bags, model.features_) for k in SPLITS}
        seen = self.stats["train"]
        self.shared = seen.mean.mean(axis=0), seen.within_cov
        self.start = start(self.problem)
        self.basis = {"basis": self.start.pop("basis")}

    def told(self, split: str, rows: Any = slice(None)) -> tuple[Any, ...]:
        """Return labels of some bags, and what is known of them."""
        labels = (getattr(self.data, split).labels[rows] - self.task.center) / self.task.scale
        design = self.task.effects.design(None, len(labels))
        stats = self.stats[split]
        return {"labels": labels[None], "design": design}, (stats.mean[rows], stats.sizes[rows])

    def missed(self, params: Any, told: Any) -> Any:
        """Return −log density of labels, standardised."""
        from bagwise.inference.learning import log_likelihoods

        batch, own = told
        seen = (*own, *self.shared)
        return -log_likelihoods(self.problem, params | self.basis, batch, seen).mean()

    def loss(self, params: Any, told: Any) -> Any:
        """Return what is minimised, per bag."""
        from bagwise.inference.learning import _penalty

        prior = _penalty(self.problem, params | self.basis, self.problem.weight_var)
        return self.missed(params, told) + prior / self.n

    def run(self) -> tuple[float, int]:
        """Return −log density of the test labels, and the epoch that was the best."""
        import jax
        import optax

        steps = self.epochs * (self.n // self.size)
        search = optax.adam(optax.cosine_decay_schedule(self.rate, steps, 0.01))

        def step(params: Any, state: Any, told: Any) -> Any:
            change, state = search.update(jax.grad(self.loss)(params, told), state)
            return optax.apply_updates(params, change), state

        move, judge, params = jax.jit(step), jax.jit(self.missed), self.start
        state, best, least, at = search.init(params), params, np.inf, 0
        rng = np.random.default_rng(0)
        for epoch in range(1, self.epochs + 1):
            order = rng.permutation(self.n)
            for first in range(0, self.n - self.size + 1, self.size):
                told = self.told("train", order[first : first + self.size])
                params, state = move(params, state, told)
            left = float(judge(params, self.told("validation")))
            if left < least:
                best, least, at = params, left, epoch
            elif epoch - at > self.patience:
                break
        constant = float(np.log(self.task.scale) + 0.5 * np.log(2.0 * np.pi))
        return float(judge(best, self.told("test"))) + constant, at


def recipe(seeds: list[int]) -> None:
    """Print test −log density of the exact optimum, and of the authors' search for it."""
    import jax

    for seed in seeds:
        data = gamma_varying(seed=seed)
        model = bagwise.ShrinkageRegressor(KernelEmbedding(60, bandwidth=1.0))
        model.fit(data.train.bags, data.train.labels)
        exact = scores(model, data.test.bags, data.test.labels)[1]
        began = time.perf_counter()
        with jax.enable_x64(True):
            found, at = Recipe(model, data).run()
        print(
            f"{seed}  exact {exact:.4f}  Adam {found:.4f}  apart {found - exact:+.4f}  "
            f"epoch {at}, {time.perf_counter() - began:.0f} s",
            flush=True,
        )


def faces(scale: float) -> None:
    """Print seconds and memory of an epoch of minibatches on simulated faces."""
    import tempfile

    import jax

    from bagwise.datasets import simulate_faces
    from bagwise.estimators.embeddings import COVARIANCE_FLOOR
    from bagwise.heads.base import Task
    from bagwise.heads.learning import learning_problem
    from bagwise.inference.learning import start as first
    from bagwise.inference.training import Minibatches, TrainingData

    settings = Training(
        "bandwidth, landmarks", epochs=10, batch_bags=64, bag_points=40, precision="float32"
    )
    with tempfile.TemporaryDirectory() as folder:
        data = simulate_faces(scale, path=folder)
        print(f"{data.bags!r}", flush=True)
        some = data.bags[: min(1000, data.bags.n_bags)]
        model = bagwise.ShrinkageRegressor(KernelEmbedding(64, landmarks="random", bandwidth=1.0))
        model.fit(some, data.labels[: some.n_bags])
        task = Task.of(data.bags, data.labels, None)
        problem = learning_problem(
            model.head_, model.features_, data.bags, task, settings.what, COVARIANCE_FLOOR
        )
        with jax.enable_x64(False):
            out = np.arange(0, data.bags.n_bags, 20)
            made = TrainingData(problem, data.bags, model.features_.scaling, settings, out)
            engine = Minibatches(problem)
            times = [_clocks()]
            state = engine.begin(first(problem), made)
            times.append(_clocks())
            state, loss, left = engine.epoch(state, 1)
            times.append(_clocks())
        (begin, own_begin), (epoch, own_epoch) = np.diff(times, axis=0)
        print(
            f"to begin {begin:.0f} s ({own_begin:.0f} of CPU), an epoch {epoch:.0f} s "
            f"({own_epoch:.0f}), {1.0 / epoch:.4f} epochs per second; loss {loss:.3f}, held out "
            f"{left:.3f}; {_memory()}"
        )


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _memory() -> str:
    """Return what the process has in memory, of its own and mapped from files."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    names = {"VmHWM": "peak", "RssAnon": "own now", "RssFile": "of files now"}
    return ", ".join(
        f"{what} {int(lines[k].split()[0]) / 2**20:.1f} GB" for k, what in names.items()
    )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ("gamma", "attention", "digits", "text", "recipe", "faces")
    parser.add_argument("what", choices=names)
    parser.add_argument("--seed", type=int, default=0, help="of digits and text")
    parser.add_argument("--scale", type=float, default=1.0, help="of faces, of the paper's number")
    parser.add_argument("--seeds", type=int, nargs="+", default=[23])
    parser.add_argument("--models", nargs="+", help="of gamma and attention; or all")
    parser.add_argument("--part", action="store_true", help="of digits, some of the patches")
    parser.add_argument("--draws", type=int, default=5, help="of attention, how many")
    parser.add_argument("--first", type=int, default=0, help="of attention, number of the first")
    parser.add_argument("--ours", action="store_true", help="attention without the rivals")
    given = parser.parse_args()
    known = list({"gamma": GAMMA, "attention": ATTENTION}.get(given.what, ()))
    if unknown := sorted(set(given.models or ()) - set(known)):
        parser.error(f"models of {given.what}: {', '.join(known)}; there is no {unknown[0]}")
    chosen, draws = given.models or known, range(given.first, given.first + given.draws)
    {
        "gamma": lambda: gamma(given.seeds, chosen),
        "attention": lambda: attention(draws, given.ours, chosen),
        "digits": lambda: digits(given.seed, given.part),
        "text": lambda: text(given.seed),
        "recipe": lambda: recipe(given.seeds),
        "faces": lambda: faces(given.scale),
    }[given.what]()


if __name__ == "__main__":
    main()
