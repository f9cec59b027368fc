"""``crop`` and ``flip``: images that are moved and mirrored anew in every step, whatever the method.

It is an objective that changes nothing but a step's inputs. Its random numbers are those of any part: a function of
seed, round and client, drawn for a whole visit; so every engine has the same images, and a hand-over changes none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from unskew.augment.crop_flip import crop_flip
from unskew.core.method import Method
from unskew.core.slots import Batch, Needs, Objective, Step
from unskew.data.dataset import Dataset
from unskew.errors import InputError


@dataclass(frozen=True)
class MoveImages(Objective):
    """Trains on images moved by at most ``crop`` pixels each way, and mirrored half of the time where ``flip``."""

    name: ClassVar[str] = "move_images"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs(global_model=False)

    crop: int = 0
    flip: bool = False

    def draw(self, rng: np.random.Generator, steps: int, batch: int) -> dict[str, np.ndarray[Any, Any]]:
        shift = rng.integers(-self.crop, self.crop + 1, (steps, batch, 2))
        mirrored = rng.integers(0, 2, (steps, batch))
        return {"shift": shift, "flip": mirrored if self.flip else np.zeros_like(mirrored)}

    def inputs(self, batch: Batch, step: Step) -> Batch:
        count = len(batch.x)
        return replace(batch, x=crop_flip(batch.x, step.draws["shift"][:count], step.draws["flip"][:count]))


def with_moved_images(method: Method, crop: int, flip: bool) -> Method:
    """The method on images that are moved first, before any other part sees them; as it is where nothing moves."""
    if not crop and not flip:
        return method
    return replace(method, objective=(MoveImages(crop, flip), *method.objective))


def check_images(dataset: Dataset, crop: int, flip: bool) -> None:
    """Refuse to move what is no image, or further than it is wide."""
    if not crop and not flip:
        return
    given = " and ".join(name for name, value in (("crop", crop), ("flip", flip)) if value)
    if dataset.kind != "image":
        alter = "alter" if crop and flip else "alters"
        raise InputError(
            f"{given} {alter} images, and {dataset.name} has samples of kind {dataset.kind}; leave {given} out"
        )
    if crop >= (least := min(dataset.shape[1:])):
        raise InputError(
            f"crop moves images by up to {crop} pixels, and those of {dataset.name} have {least} on a side; write at "
            f"most crop = {least - 1}"
        )
