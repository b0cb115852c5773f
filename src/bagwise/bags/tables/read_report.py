"""ReadReport: what was left out or filled in while a table was read, and what looks wrong."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from bagwise.bags.tables.outliers import Outlier, find_outliers
from bagwise.bags.tables.rows import SHOWN, by_column, count, some
from bagwise.exceptions import BagwiseWarning

NAMED = 100  # columns left out that are named before the others are only counted


@dataclass(frozen=True)
class ReadReport:
    """What was left out or filled in while a table was read.

    Attributes
    ----------
    n_rows, n_dropped_rows : int
        Rows of the table of points; those of them left out because a value is missing.
    gaps : dict of int
        Missing values by column, if rows with missing values were left out.
    n_imputed : dict of int
        Missing values by column that were filled in.
    dropped_bags : tuple
        Bags that lost all their points to missing values, or have no label.
    unmatched_bags, unmatched_labels : tuple
        Bags without a row in the labels table; bags of that table without points.
    left_out : dict of str
        Columns that are no features because they are not numbers, and why.
    constant : tuple of str
        Features that have one value in every bag, as covariates do.
    outliers : tuple of str
        Values far from all others of their column, each in a sentence.

    Examples
    --------
    >>> ReadReport(n_rows=9, n_imputed={"x": 2}, unmatched_bags=("ann",)).lines()
    ["Filled in 2 missing values by the median of their column (2 in column 'x').",
     "Left out 1 bag without a row in the labels table: 'ann'."]
    """

    n_rows: int = 0
    n_dropped_rows: int = 0
    gaps: dict[str, int] = field(default_factory=dict)
    n_imputed: dict[str, int] = field(default_factory=dict)
    dropped_bags: tuple[Any, ...] = ()
    unmatched_bags: tuple[Any, ...] = ()
    unmatched_labels: tuple[Any, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    constant: tuple[str, ...] = ()
    outliers: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Say in one sentence each what somebody who reads a table should know."""
        lines = []
        if self.gaps:
            rows = f"{self.n_dropped_rows:,} of {count(self.n_rows, 'row')}"
            lines.append(f"Left out {rows} for missing values ({by_column(self.gaps)}).")
        if self.n_imputed:
            total = count(sum(self.n_imputed.values()), "missing value")
            where = by_column(self.n_imputed)
            lines.append(f"Filled in {total} by the median of their column ({where}).")
        for bags, reason in (
            (self.dropped_bags, "with a missing value in every row"),
            (self.unmatched_bags, "without a row in the labels table"),
            (self.unmatched_labels, "of the labels table without points"),
        ):
            if bags:
                lines.append(f"Left out {count(len(bags), 'bag')} {reason}: {some(bags)}.")
        return [*lines, *self._of_columns()]

    def _of_columns(self) -> list[str]:
        lines = []
        if self.left_out:
            named = [f"{name!r} ({why})" for name, why in self.left_out.items()]
            number, rest = count(len(named), "column"), len(named) - NAMED
            named = named[:NAMED] + ([f"and {rest:,} more"] if rest > 0 else [])
            lines.append(
                f"Left out {number}: {', '.join(named)}. Name the columns to use with "
                "features=[...], or encode categories with one_hot=[...]."
            )
        if self.constant:
            plural = len(self.constant) > 1
            lines.append(
                f"Column{'s' if plural else ''} {some(self.constant)} "
                f"{'have' if plural else 'has'} one value in every bag: a covariate, or the label? "
                "Say so with covariates=[...] or label=..., or name the features."
            )
        shown = list(self.outliers[:SHOWN])
        rest = len(self.outliers) - SHOWN
        more = [f"There are such values in {count(rest, 'more column')}."] if rest > 0 else []
        return [*lines, *shown, *more]

    def warn(self, stacklevel: int) -> None:
        """Warn of what was left out, filled in or looks wrong, if anything was."""
        lines = self.lines()
        if lines:
            warnings.warn(" ".join(lines), BagwiseWarning, stacklevel=stacklevel + 1)


def outlier_lines(
    array: Float[np.ndarray, "rows columns"], names: Sequence[str], what: str = "Column"
) -> tuple[str, ...]:
    """Say which values of columns lie far from all others, and what to do if they are not meant.

    Examples
    --------
    >>> x = np.append(np.linspace(0, 1, 99), 1e6)[:, None]
    >>> print(*outlier_lines(x, ["x"]))
    Column 'x' has 1 value of 1000000.0, far from all others (0 to 1): if it stands for a missing
    value, say na_values=1000000.0 (--na), and missing="drop" or "impute".
    """
    return tell(find_outliers(array), names, what)


def tell(found: Sequence[Outlier], names: Sequence[str], what: str = "Column") -> tuple[str, ...]:
    """Say in one sentence each what outliers there are."""
    return tuple(
        f"{what} {names[outlier.column]!r} has {count(outlier.count, 'value')} of "
        f"{outlier.value!r}, far from all others ({outlier.low:.4g} to {outlier.high:.4g}): if it "
        f"stands for a missing value, say na_values={outlier.value!r} (--na), and "
        'missing="drop" or "impute".'
        for outlier in found
    )
