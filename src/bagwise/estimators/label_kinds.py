"""Label kinds: what labels are, as ``likelihood=`` says, and whether they are that."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.bags.bags import Bags
from bagwise.bags.validation import Names, show, wrong
from bagwise.exceptions import BagwiseWarning, InvalidBagsError, InvalidLabelsError
from bagwise.likelihoods import Binomial, NegativeBinomial, Poisson
from bagwise.likelihoods.counts import CountLikelihood

# Likelihoods by the names that parameters have for them; those of counts may have totals.
COUNTS: dict[str, type[CountLikelihood]] = {
    kind.name: kind for kind in (Poisson, NegativeBinomial, Binomial)
}
LIKELIHOODS = ("auto", "gaussian", "student", "positive", *COUNTS)

# Share of labels at the ends of their range from which it is said that these have no probability.
MANY_AT_AN_END = 0.1


@dataclass(frozen=True)
class LabelKind:
    """What labels are, as ``likelihood=`` says: a name, and for counts what they are out of.

    Totals are known of a bag before its label is, and are needed again for each new bag. As a
    covariate they go with the bags through folds, searches, files and the command line, where
    labels in pairs, or an argument of ``fit``, would be lost.

    Attributes
    ----------
    name : of the likelihood;  totals : name of a covariate, a number, or None

    Examples
    --------
    >>> LabelKind.of("binomial(voters)"), LabelKind.of("poisson")
    (LabelKind(name='binomial', totals='voters'), LabelKind(name='poisson', totals=None))
    """

    name: str
    totals: str | float | None = None

    @classmethod
    def of(cls, text: Any) -> LabelKind:
        """Read the parameter."""
        match = re.fullmatch(r"([a-z-]+)(?:\((.+)\))?", text) if isinstance(text, str) else None
        name, totals = match.groups() if match else (None, None)
        if name not in LIKELIHOODS or (totals is not None and name not in COUNTS):
            known = ", ".join(f'"{known}"' for known in LIKELIHOODS)
            raise wrong("likelihood", text, f'one of {known}, of counts also "binomial(totals)"')
        if totals is None and COUNTS.get(name, Poisson).needs_totals:
            raise wrong(
                "likelihood", text, f'a covariate or a number of trials too, as in "{name}(20)"'
            )
        try:
            return cls(name, float(totals)) if totals is not None else cls(name)
        except ValueError:  # not a number
            return cls(name, totals)

    def counts(self, bags: Bags, names: Names) -> tuple[CountLikelihood, int | None]:
        """Return the likelihood of bags, and which covariate holds their totals.

        ``names`` are those of the covariates that the model was fitted to.
        """
        if not isinstance(self.totals, str):
            column, totals = None, np.full(bags.n_bags, 1.0 if self.totals is None else self.totals)
        elif names is None or self.totals not in names:
            shown = ", ".join(map(repr, names)) if names else "none with a name"
            raise InvalidBagsError.because(
                f"the bags have no covariate {self.totals!r}, which likelihood names",
                f"one of the covariates of the bags: {shown}",
                "Give the bags their totals as a covariate: covariates=totals[:, None], "
                f"covariate_names=[{self.totals!r}].",
            )
        else:
            assert bags.covariates is not None
            column = names.index(self.totals)
            totals = bags.covariates[:, column].astype(np.float64)
        likelihood = COUNTS[self.name](totals)
        likelihood.check_totals(bags.ids)
        return likelihood, column


def check_positive(y: np.ndarray, bags: Bags) -> None:
    """Raise if a label has no logarithm."""
    bad = np.flatnonzero(y <= 0)
    if len(bad):
        raise InvalidLabelsError.because(
            f"the label of bag {show(bags.ids[bad[0]])} (position {bad[0]}) is {y[bad[0]]:g} "
            f"({len(bad)} such labels)",
            'numbers > 0, as likelihood="positive" says',
            "Correct the label, or choose another likelihood.",
        )


def check_support(y: np.ndarray, bags: Bags, support: tuple[float, float]) -> None:
    """Raise if a label lies outside the range that labels are said to have."""
    outside = np.flatnonzero((y < support[0]) | (y > support[1]))
    if len(outside):
        raise InvalidLabelsError.because(
            f"the label of bag {show(bags.ids[outside[0]])} is {y[outside[0]]:g} "
            f"({len(outside)} such labels)",
            f"labels from {support[0]:g} to {support[1]:g}, as support says",
            "Correct the label, or widen support.",
        )
    at_an_end = np.mean((y == support[0]) | (y == support[1]))
    if at_an_end > MANY_AT_AN_END and y.min() < y.max():
        warnings.warn(
            f"more than a tenth of the labels are exactly {support[0]:g} or {support[1]:g}, the "
            "ends of support, and predictions have a density there: intervals reach an end that is "
            "near, but quantile and cdf cannot say how probable the end itself is. Check with "
            "bagwise.evaluate(prediction, labels), or see Conformal(model), whose intervals hold "
            "what they promise.",
            BagwiseWarning,
            stacklevel=4,  # whoever calls fit
        )
