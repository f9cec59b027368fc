"""FedGen by hand: what a generator makes, what clients lose on it, how the server trains it, and when it begins."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from by_hand import numbers
from unskew.core.method import Method
from unskew.core.slots import Batch, Out, Step
from unskew.core.task import CLASSIFICATION
from unskew.errors import InputError
from unskew.models.generator import EPS, generated, sample_generator, trained
from unskew.parts.objective import FedGen
from unskew.parts.objective.fedgen import alike
from unskew.seeds import generator
from unskew.testing.toy_federation import apart, normed, play, ready


def rows(*points):
    return torch.tensor(points, dtype=torch.float64)


def small_generator():
    """One hidden unit h = relu(z + 2 y0 - y1), then the features (2 h + 0.5, -h); its averages change nothing."""
    return {
        "0.weight": rows((1.0, 2.0, -1.0)),
        "0.scale": numbers(1.0),
        "0.shift": numbers(0.0),
        "0.mean": numbers(0.0),
        "0.var": numbers(1.0 - EPS),
        "1.weight": rows((2.0,), (-1.0,)),
        "1.shift": numbers(0.5, 0.0),
    }


class Identity:
    """A net whose classifier passes features on as logits."""

