"""Whether conformal intervals hold, by bag size, in any world, and where sizes shift.

Worlds are drawn at random: one to three columns, what of a bag its label depends on (location,
spread, products, waves), points and noise with and without heavy or skewed tails. In each a linear
shrinkage model, which is right about hardly any of them, is fitted and calibrated.

- worlds: share of new labels inside the 80, 90 and 95 % intervals, and mean widths, by size; of the
  model itself, and of it calibrated on bags left out: with plain errors (``scale=None``), errors in
  units of its standard deviation, size groups apart, and by CV+
- shift: sizes of new bags are other than those of the training; calibrated as if they were not, and
  with weights by size

Standard errors are over worlds, widths are medians of bags and then of worlds. ``*`` marks what is
further than three of them outside of what is promised: the level or more, and with one model and no
weights level + 1/(n + 1) at most, of n calibration bags. CV+ is marked as if it promised the level,
though 2 level − 1 is all that is proven. Rows in brackets have no promise.

    python -m benchmarks.conformal [worlds] [shift] [--worlds 100] [--first 0]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bagwise import Bags, BagwiseWarning, Conformal, KernelEmbedding, ShrinkageRegressor

LEVELS = (0.8, 0.9, 0.95)
N_TRAIN = 200
N_TEST = 200
SIZES = (3, 10, 30, 100)

# Mean and sd of log size, in the training and of the bags to come.
SHIFT = ((3.4, 0.7), (2.3, 0.7))
SHIFT_EDGES = (2, 8, 16, 32)

# Standard errors outside of the bound beyond which a share is marked.
FAR = 3.0

MODEL: Callable[[], Any] = lambda: ShrinkageRegressor(KernelEmbedding(20, bandwidth=2.0))  # noqa: E731

LABELS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "location": lambda a, b: a,
    "spread": lambda a, b: b,
    "product": lambda a, b: a * b,
    "wave": lambda a, b: np.sin(3 * a) + b,
    "kink": lambda a, b: np.abs(a) + b**2,
}
NOISES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "gaussian": lambda rng, n: rng.standard_normal(n),
    "heavy": lambda rng, n: rng.standard_t(3, n) / np.sqrt(3),
    "skewed": lambda rng, n: rng.exponential(1, n) - 1.0,
}


@dataclass(frozen=True)
class World:
    """What bags and labels are like.

    Attributes
    ----------
    columns : of the points;  label : name of what it depends on;  points, noise : names of shapes
    sd : of the noise;  relative : whether noise grows with the spread of the bag
    """

    columns: int
    label: str
    points: str
    noise: str
    sd: float
    relative: bool

    @classmethod
    def draw(cls, rng: np.random.Generator) -> World:
        """Draw a world."""
        return cls(
            columns=int(rng.integers(1, 4)),
            label=str(rng.choice(list(LABELS))),
            points=str(rng.choice(list(NOISES))),
            noise=str(rng.choice(list(NOISES))),
            sd=float(np.exp(rng.uniform(np.log(0.05), np.log(0.5)))),
            relative=bool(rng.integers(2)),
        )

    def bags(self, rng: np.random.Generator, sizes: np.ndarray) -> tuple[Bags, np.ndarray]:
        """Draw bags of these sizes, and their labels."""
        a, b = rng.uniform(-1, 1, len(sizes)), rng.uniform(0.5, 1.5, len(sizes))
        arrays = [
            x + y * NOISES[self.points](rng, n * self.columns).reshape(n, self.columns)
            for x, y, n in zip(a, b, sizes.tolist(), strict=True)
        ]
        sd = self.sd * (b if self.relative else 1.0)
        return Bags.from_list(arrays), LABELS[self.label](a, b) + sd * NOISES[self.noise](
            rng, len(sizes)
        )


@dataclass
class Shares:
    """Shares of labels inside intervals, and widths, of each world: by calibration and size."""

    held: dict[tuple[str, str], list[np.ndarray]] = field(default_factory=dict)
    widths: dict[tuple[str, str], list[np.ndarray]] = field(default_factory=dict)
    bounds: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def add(self, name: str, prediction: Any, y: np.ndarray, groups: dict[str, np.ndarray]) -> None:
        """Add the intervals of one world; ``groups`` are masks of the bags by size."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BagwiseWarning)  # infinite ones count as they are
            ends = np.stack([prediction.interval(level) for level in LEVELS])
        inside = (ends[:, :, 0] <= y) & (y <= ends[:, :, 1])
        for group, some in groups.items():
            if some.any():
                width = np.median((ends[:, :, 1] - ends[:, :, 0])[:, some], axis=1)
                self.held.setdefault((name, group), []).append(inside[:, some].mean(axis=1))
                self.widths.setdefault((name, group), []).append(width)

    def promise(self, name: str, group: str, n_bags: int | None = None) -> None:
        """Note that intervals hold with the level or more, of n bags at most level + 1/(n + 1)."""
        bound = np.inf if n_bags is None else 1.0 / (n_bags + 1)
        self.bounds.setdefault((name, group), []).append(bound)

    def lines(self) -> Iterator[str]:
        """Yield the table."""
        head = "   ".join(f"{f'{level:.0%}':>14s} {'width':>6s}" for level in LEVELS)
        yield f"  {'':24s} {'N':>7s}   {head}"
        last = None
        for (name, group), found in self.held.items():
            shown, last = ("" if name == last else name), name
            size = group if (name, group) in self.bounds else f"({group})"
            yield f"  {shown:24s} {size:>7s}   " + self._cells(name, group, np.array(found))

    def _cells(self, name: str, group: str, found: np.ndarray) -> str:
        share, worlds = found.mean(axis=0), len(found)
        error = found.std(axis=0, ddof=1) / np.sqrt(worlds) if worlds > 1 else np.zeros(len(share))
        width = np.median(self.widths[name, group], axis=0)
        bounds, cells = self.bounds.get((name, group)), []
        for k, level in enumerate(LEVELS):
            low, high = (level, level + np.mean(bounds)) if bounds else (-np.inf, np.inf)
            inside = low - FAR * error[k] <= share[k] <= high + FAR * error[k]
            mark = " " if inside else "*"
            cells.append(f"{share[k]:6.1%} ± {error[k]:4.1%}{mark} {width[k]:6.2f}")
        return "   ".join(cells)


def calibrated(fitted: Any, bags: Bags, y: np.ndarray, **settings: Any) -> Any:
    """Return a fitted model, calibrated on bags that it has not seen."""
    return Conformal(fitted, "split", cv="prefit", **settings).fit(bags, y)


def one_world(seed: int, found: Shares) -> None:
    """Calibrate a model in a world in four ways, and count."""
    rng = np.random.default_rng([seed, 1])
    world = World.draw(rng)
    bags, y = world.bags(rng, rng.choice(SIZES, N_TRAIN))
    new, labels = world.bags(rng, rng.choice(SIZES, N_TEST))
    half = N_TRAIN // 2
    fitted, rest, known = MODEL().fit(bags[:half], y[:half]), bags[half:], y[half:]
    groups = {f"{n:,}": new.sizes == n for n in SIZES} | {"all": np.ones(N_TEST, dtype=bool)}
    found.add("model itself", fitted.predict_dist(new), labels, groups)
    ways: dict[str, dict[str, Any]] = {
        "plain errors": {"scale": None},
        "scaled": {},
        "scaled, by size": {"by_size": SIZES},
    }
    for name, settings in ways.items():
        model = calibrated(fitted, rest, known, **settings)
        found.add(name, model.predict_dist(new), labels, groups)
        if "by_size" not in settings:
            found.promise(name, "all", half)
            continue
        found.promise(name, "all")
        for n in SIZES:
            found.promise(name, f"{n:,}", int(np.sum(rest.sizes == n)))
    model = Conformal(MODEL()).fit(bags, y)
    found.add("scaled, CV+", model.predict_dist(new), labels, groups)
    found.promise("scaled, CV+", "all")


def one_shift(seed: int, found: Shares) -> None:
    """Calibrate on large bags, predict small ones, and count."""
    rng = np.random.default_rng([seed, 2])
    world = World.draw(rng)
    before, after = (
        np.clip(np.round(np.exp(rng.normal(*law, n))), 2, 400).astype(int)
        for law, n in zip(SHIFT, (2 * N_TRAIN, N_TEST), strict=True)
    )
    bags, y = world.bags(rng, before)
    new, labels = world.bags(rng, after)
    fitted, rest, known = MODEL().fit(bags[:N_TRAIN], y[:N_TRAIN]), bags[N_TRAIN:], y[N_TRAIN:]
    everyone = {"all": np.ones(N_TEST, dtype=bool)}
    which = np.searchsorted(SHIFT_EDGES, after, side="right")
    for k, start in enumerate(SHIFT_EDGES):
        last = f"–{SHIFT_EDGES[k + 1] - 1}" if k + 1 < len(SHIFT_EDGES) else "+"
        everyone |= {f"{start}{last}": which == k + 1}
    found.add("model itself", fitted.predict_dist(new), labels, everyone)
    for name, scale in (("plain errors", None), ("scaled", "auto")):
        for words, target in (("", None), (", weighted", "predicted")):
            model = calibrated(fitted, rest, known, scale=scale, target_sizes=target)
            found.add(name + words, model.predict_dist(new), labels, everyone)
            found.promise(name + words, "all")  # unweighted, of bags of other sizes


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="worlds, shift; both if none")
    parser.add_argument("--worlds", type=int, default=100, help="number of worlds")
    parser.add_argument("--first", type=int, default=0, help="seed of the first world")
    options = parser.parse_args(arguments)
    parts = {"worlds": one_world, "shift": one_shift}
    for part in options.parts or tuple(parts):
        found = Shares()
        for seed in range(options.first, options.first + options.worlds):
            parts[part](seed, found)
        print(f"{part}: {options.worlds} worlds from seed {options.first}")
        for line in found.lines():
            print(line, flush=True)


if __name__ == "__main__":
    main()
