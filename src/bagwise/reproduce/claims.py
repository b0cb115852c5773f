"""Claims: what the paper says, and what our numbers say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bagwise.reproduce.cell import Cell
from bagwise.reproduce.tables import Row, value_of

# Differences below this many standard errors are not called differences.
CLEAR = 2.0


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, our evidence, and whether it holds.

    Attributes
    ----------
    text : what the paper says;  evidence : our numbers
    verdict : "holds", "does not hold" or "undecided"
    """

    text: str
    evidence: str
    verdict: str

    def row(self) -> Row:
        """Return the row of the table."""
        return {"the paper says": self.text, "our evidence": self.evidence, "so it": self.verdict}


def claims_of(data: str, cells: Sequence[Cell]) -> list[Claim]:
    """Return the paper's claims on some data, as far as there are cells for them."""
    makers = {
        "gamma-varying": (
            lambda c: better("when sizes vary", c, ("shrinkage", "BDR"), ("BLR", "RBF network")),
            lambda c: better("when sizes vary: r = k", c, ("shrinkage",), ("shrinkageC",)),
            blind_to_size,
        ),
        "gamma-fixed": (
            lambda c: better(
                "at a fixed size",
                c,
                ("BLR", "BDR"),
                ("RBF network", "freq-shrinkage", "shrinkage", "shrinkageC"),
            ),
        ),
        "imdb-wiki": (
            lambda c: better("on faces", c, ("shrinkage",), ("BLR", "CNN")),
            lambda c: better("on faces", c, ("freq-shrinkage",), ("RBF network", "BLR", "CNN")),
        ),
    }
    return [claim for make in makers[data] for claim in make(list(cells))]


def better(
    where: str, cells: Sequence[Cell], winners: Sequence[str], losers: Sequence[str]
) -> list[Claim]:
    """Compare each winner with each loser: means over the settings, paired."""
    found = []
    for winner in winners:
        for loser in losers:
            pairs = paired(cells, winner, loser)
            if len(pairs["mse"][0]):
                text = f"{winner} beats {loser} {where}"
                found.append(Claim(text, _evidence(pairs), _verdict(pairs)))
    return found


Pairs = dict[str, tuple[np.ndarray, np.ndarray]]


def paired(cells: Sequence[Cell], a: str, b: str) -> Pairs:
    """Return the MSEs and NLLs of two methods at the settings that both have."""
    by = {(cell.method, cell.setting): cell for cell in cells}
    both = [s for method, s in by if method == a and (b, s) in by]
    return {
        metric: (
            np.array([value_of(by[a, s], metric) for s in both]),
            np.array([value_of(by[b, s], metric) for s in both]),
        )
        for metric in ("mse", "nll")
    }


def _evidence(pairs: Pairs) -> str:
    parts = []
    for metric, (left, right) in pairs.items():
        wins = int(np.sum(left < right))
        parts.append(
            f"{metric.upper()} {left.mean():.3f} against {right.mean():.3f}, "
            f"lower in {wins} of {len(left)}"
        )
    return "; ".join(parts)


def _verdict(pairs: Pairs) -> str:
    """Decide by the paired differences: both scores lower, one clearly, and none clearly higher."""
    signs = [clear_sign(left - right) for left, right in pairs.values()]
    if min(signs) < 0 and max(signs) <= 0:
        return "holds"
    if max(signs) > 0 and min(signs) >= 0:
        return "does not hold"
    return "undecided"


def clear_sign(differences: np.ndarray) -> int:
    """Return the sign of the mean, or 0 if it is within two standard errors of zero.

    Examples
    --------
    >>> clear_sign(np.array([-1.0, -1.1, -0.9])), clear_sign(np.array([-1.0, 1.1]))
    (-1, 0)
    """
    mean = float(differences.mean())
    if len(differences) < 2:
        return 0
    error = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    return int(np.sign(mean)) if abs(mean) > CLEAR * error else 0


def blind_to_size(cells: Sequence[Cell]) -> list[Claim]:
    """Compare how standard deviations and errors change from large bags to small ones."""
    parts, ratios = [], {}
    for method in ("BLR", "shrinkage", "BDR"):
        chosen = [cell for cell in cells if cell.method == method and (cell.sizes == 5).any()]
        if not chosen:
            return []
        said = _ratio([cell.std for cell in chosen], chosen)
        was = _ratio([np.abs(cell.mean - cell.labels) for cell in chosen], chosen)
        ratios[method] = said / was
        parts.append(f"{method}: sd ×{said:.2f}, errors ×{was:.2f}")
    holds = ratios["BLR"] < 0.5 * min(ratios["shrinkage"], ratios["BDR"])
    text = "BLR's variance ignores the size of the bag (from 1,000 points to 5)"
    return [Claim(text, "; ".join(parts), "holds" if holds else "does not hold")]


def _ratio(values: Sequence[np.ndarray], cells: Sequence[Cell]) -> float:
    """Return the root mean square over bags of 5 points, relative to that of the largest."""
    both = list(zip(values, cells, strict=True))
    small = np.concatenate([v[cell.sizes == 5] for v, cell in both])
    large = np.concatenate([v[cell.sizes == cell.sizes.max()] for v, cell in both])
    return float(np.sqrt(np.mean(small**2) / np.mean(large**2)))
