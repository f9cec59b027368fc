"""Models by name, and what makes any model fit for stacked federated training."""

from unskew.models.adapt import adapt
from unskew.models.architecture import Architecture
from unskew.models.build import build
from unskew.models.functional import context, trees
from unskew.models.layers import BatchNorm, Dropout
from unskew.models.split import SplitModel, Stages
from unskew.models.zoo import MODELS

__all__ = [
    "MODELS",
    "Architecture",
    "BatchNorm",
    "Dropout",
    "SplitModel",
    "Stages",
    "adapt",
    "build",
    "context",
    "trees",
]
