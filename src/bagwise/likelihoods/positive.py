"""Positive labels: Gaussian in their logs, y = e^(f + noise)."""

from __future__ import annotations

from typing import Any

from bagwise.likelihoods.gaussian import Gaussian
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.latent import Query
from bagwise.predictions.linked import PositivePrediction


class Positive(Gaussian):
    """Labels > 0. The fit is that of their logs; what is predicted is log-normal."""

    name = "positive"

    def predict(
        self, query: Query, *, sizes: Any, ids: Any, classes: Any = None
    ) -> PositivePrediction:
        """Return a log-normal distribution for each bag."""
        return PositivePrediction(
            Prediction.from_latent(query.latent(), sizes=sizes, ids=ids, query=query)
        )
