"""Data sets: the paper's simulation, polls and molecules, and the paper's own numbers."""

from bagwise.datasets.gamma import (
    GammaExperiment,
    GammaSplit,
    gamma_fixed,
    gamma_varying,
    make_gamma,
)
from bagwise.datasets.gamma_posterior import GammaPosterior, bayes_optimal
from bagwise.datasets.musk import Musk, load_musk
from bagwise.datasets.paper import PaperResult, load_paper_results
from bagwise.datasets.polls import Polls, load_polls

__all__ = [
    "GammaExperiment",
    "GammaPosterior",
    "GammaSplit",
    "Musk",
    "PaperResult",
    "Polls",
    "bayes_optimal",
    "gamma_fixed",
    "gamma_varying",
    "load_musk",
    "load_paper_results",
    "load_polls",
    "make_gamma",
]
