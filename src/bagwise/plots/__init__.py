"""Pictures: data and axes in, axes out. Nothing is computed here."""

from __future__ import annotations

from bagwise.plots.labels import predicted_against_true, predictions_by_size, reliability

__all__ = ["predicted_against_true", "predictions_by_size", "reliability"]
