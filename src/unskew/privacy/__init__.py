"""The privacy laboratory: what a method's clients give away, measured by attacks that work for any method."""

from unskew.core.views import VIEWS, View
from unskew.privacy.context import Context
from unskew.privacy.exposure import exposure
from unskew.privacy.inversion import Inversion
from unskew.privacy.laboratory import ATTACKS, Attacked, attack
from unskew.privacy.reconstruction import Reconstruction
from unskew.privacy.subject import Subject, subject

__all__ = [
    "ATTACKS",
    "VIEWS",
    "Attacked",
    "Context",
    "Inversion",
    "Reconstruction",
    "Subject",
    "View",
    "attack",
    "exposure",
    "subject",
]
