"""Data sets: the paper's simulation, faces and numbers; polls, molecules, counties, schools."""

from bagwise.datasets.faces import Faces, FacesExperiment
from bagwise.datasets.faces_cnn import ImageMixture, cnn_baseline
from bagwise.datasets.faces_simulation import simulate_faces
from bagwise.datasets.gamma import (
    GammaExperiment,
    GammaSplit,
    gamma_fixed,
    gamma_varying,
    make_gamma,
)
from bagwise.datasets.gamma_noise import noisy_log_density
from bagwise.datasets.gamma_posterior import (
    GammaBaselines,
    GammaPosterior,
    bayes_optimal,
    gamma_baselines,
)
from bagwise.datasets.imdb_wiki import load_imdb_wiki
from bagwise.datasets.paper import PaperResult, load_paper_results
from bagwise.datasets.shipped import (
    Musk,
    Polls,
    Radon,
    Schools,
    load_musk,
    load_polls,
    load_radon,
    load_schools,
)

__all__ = [
    "Faces",
    "FacesExperiment",
    "GammaBaselines",
    "GammaExperiment",
    "GammaPosterior",
    "GammaSplit",
    "ImageMixture",
    "Musk",
    "PaperResult",
    "Polls",
    "Radon",
    "Schools",
    "bayes_optimal",
    "cnn_baseline",
    "gamma_baselines",
    "gamma_fixed",
    "gamma_varying",
    "load_imdb_wiki",
    "load_musk",
    "load_paper_results",
    "load_polls",
    "load_radon",
    "load_schools",
    "make_gamma",
    "noisy_log_density",
    "simulate_faces",
]
