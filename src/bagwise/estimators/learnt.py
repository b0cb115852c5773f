"""Learnt: what a fitted estimator has found out, below scikit-learn's diagram in a notebook."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise._utils.notebook import panel, show, table

# Arrays of up to so many numbers are shown; of larger ones, the shape.
SHOWN = 4


class ShowsLearnt:
    """Adds to the HTML of a scikit-learn estimator the values that ``fit`` has learnt."""

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._learnt_html()  # type: ignore[misc]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._learnt_html()
        return bundle

    def _learnt_html(self) -> str:
        found = learnt(self)
        columns = {"attribute": list(found), "value": list(found.values())}
        return panel("Learnt", table(columns)) if found else ""


def learnt(estimator: Any) -> dict[str, str]:
    """Return the public attributes that end in an underscore and are numbers, text or arrays.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> learnt(LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0]))["coef_"]
    '2'
    """
    if not any(_public(name) for name in vars(estimator)):
        return {}  # not fitted
    found = {}
    for name in filter(_public, dir(estimator)):
        value = getattr(estimator, name, None)
        if isinstance(value, np.ndarray):
            large = value.size > SHOWN
            shape = " × ".join(map(str, value.shape))
            found[name] = f"array, {shape}" if large else ", ".join(map(show, value.flat))
        elif isinstance(value, str | int | float | np.generic):
            found[name] = show(value)
    return found


def _public(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")
