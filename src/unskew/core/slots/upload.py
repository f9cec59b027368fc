"""In which form does an update leave the client?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unskew.core.slots.part import Part
from unskew.core.types import Memory, Shape, Tree, nbytes

if TYPE_CHECKING:
    from unskew.core.net import Net


@dataclass(frozen=True)
class Upload(Part):
    """Encodes what a client uploads: fewer numbers, coarser ones, or a bound on them (clipping, noise).

    What is encoded is the change of the trained parameters: from the global model of the round to the one that the
    client uploads. A client encodes (``encode``, with its memory). The server decodes (``decode``) and goes on with the
    model that it finds. Bytes are those of the message.

    Several parts chain. Each is handed the numbers that the part before it left under the weights' names; whatever else
    is in a message travels beside them.

    Batch-norm statistics, and what objectives report, travel as they are. So do models that clients hand to each other.
    """

    slot: ClassVar[str] = "upload"
    packs: ClassVar[bool] = False
    """Whether its messages hold no numbers any more, but packed bytes: then no other part can come after it."""

    @property
    def encodes(self) -> bool:
        """Whether it changes anything at these values; one that does not is left out, and models travel as they are."""
        return True

    # --- a client

    def init_client(self, net: Net) -> Memory:
        """A client's memory before its first upload; what it remembers is kept only when its upload lands."""
        return {}

    def encode(self, change: Tree, memory: Memory, rng: np.random.Generator) -> tuple[Tree, Memory]:
        """(the message, what the client remembers); ``rng`` is this client's in this round, on every engine."""
        raise TypeError(f"{self.name} does not say what leaves a client: define encode()")

    # --- the server

    def decode(self, message: Tree, shapes: Mapping[str, Shape]) -> Tree:
        """The change of one client, by this message alone. ``shapes`` are those of what was encoded: both sides know
        the model, so they are not sent."""
        return {k: message[k] for k in shapes}

    def size(self, message: Tree) -> int:
        """Bytes of a message, or of what of it travels beside the numbers that the next part encodes."""
        return nbytes(message)
