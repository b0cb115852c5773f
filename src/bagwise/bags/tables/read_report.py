"""ReadReport: what was left out or filled in while a table was read."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from bagwise.bags.tables.rows import by_column, count, some
from bagwise.exceptions import BagwiseWarning


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
    unused : tuple of str
        Columns that were not read because they are not numbers.

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
    unused: tuple[str, ...] = ()

    def losses(self) -> list[str]:
        """Say in one sentence each what was left out or filled in."""
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
        return lines

    def lines(self) -> list[str]:
        """Say in one sentence each what somebody who reads a table should know."""
        if not self.unused:
            return self.losses()
        unused = f"Columns not used, as they are not numbers: {some(self.unused)}."
        return [*self.losses(), unused]

    def warn(self) -> None:
        """Warn of what was left out or filled in, if anything was."""
        if self.losses():
            warnings.warn(" ".join(self.losses()), BagwiseWarning, stacklevel=4)
