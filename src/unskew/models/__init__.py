"""Models by name, and what makes any model fit for stacked federated training; torch is loaded when one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unskew.later import looks_up

if TYPE_CHECKING:
    from unskew.models.adapting import adapt as adapt
    from unskew.models.architecture import Architecture as Architecture
    from unskew.models.building import build as build
    from unskew.models.functional import context as context
    from unskew.models.functional import trees as trees
    from unskew.models.layers import BatchNorm as BatchNorm
    from unskew.models.layers import Dropout as Dropout
    from unskew.models.split import SplitModel as SplitModel
    from unskew.models.split import Stages as Stages
    from unskew.models.zoo import MODELS as MODELS

_PUBLIC = {
    "MODELS": "zoo",
    "Architecture": "architecture",
    "BatchNorm": "layers",
    "Dropout": "layers",
    "SplitModel": "split",
    "Stages": "split",
    "adapt": "adapting",
    "build": "building",
    "context": "functional",
    "trees": "functional",
}

__all__ = [*_PUBLIC]


__getattr__ = looks_up(__name__, _PUBLIC)
