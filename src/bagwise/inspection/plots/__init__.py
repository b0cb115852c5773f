"""Pictures: data and axes in, axes out; where a picture has several panels, a figure.

What is drawn is computed by small functions beside the drawing, or comes from the model.
"""

from __future__ import annotations

from bagwise.inspection.plots.bag_map import embedding_map
from bagwise.inspection.plots.chains import trace
from bagwise.inspection.plots.contribution import (
    column_contributions,
    contributions,
    point_contributions,
    witness,
)
from bagwise.inspection.plots.coverage import calibration, pit
from bagwise.inspection.plots.labels import predicted_against_true, predictions_by_size, reliability
from bagwise.inspection.plots.learning import learning
from bagwise.inspection.plots.spread import more_points, spread_by_size

__all__ = [
    "calibration",
    "column_contributions",
    "contributions",
    "embedding_map",
    "learning",
    "more_points",
    "pit",
    "point_contributions",
    "predicted_against_true",
    "predictions_by_size",
    "reliability",
    "spread_by_size",
    "trace",
    "witness",
]
