"""Real labels with heavy tails: Student's t around the mean, with the variance of the Gaussian."""

from __future__ import annotations

from typing import Any

from bagwise.likelihoods.gaussian import Gaussian
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.latent import Query
from bagwise.predictions.student import StudentPrediction


class Student(Gaussian):
    """Labels of which some lie far out: what is predicted has ν degrees of freedom.

    In the fit they are Gaussian; ν is that of the residuals left out.
    """

    name = "student"

    def __init__(self, dof: float) -> None:
        self.dof = dof

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Student) and self.dof == other.dof

    def __hash__(self) -> int:
        return hash(self.dof)

    def predict(self, query: Query, *, sizes: Any, ids: Any, classes: Any = None) -> Prediction:
        """Return Student's t for each bag."""
        plain = super().predict(query, sizes=sizes, ids=ids)
        return StudentPrediction(plain, dof=self.dof)
