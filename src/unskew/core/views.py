"""What others get to see of a client's samples: the sample itself, an average of some, or features of it.

A part names its view in ``Part.sends``; the attacks of this package take any of them, so that whatever a method
shares is judged by the same instruments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from unskew.core.exchanged_rows import Store, restore_rows, store_rows
from unskew.core.types import Ids, Tree
from unskew.errors import InputError
from unskew.expression import build
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net
    from unskew.core.query import ClientView
    from unskew.core.slots import Part


@dataclass(frozen=True)
class View:
    """A function from groups of samples to what is shared of each group."""

    name: ClassVar[str]
    of_model: ClassVar[bool] = False  # whether what is seen changes with the model

    @property
    def group(self) -> int:
        """How many samples are behind one thing that is shared."""
        return 1

    def at(self, client: int) -> View:
        """This view of a client of so many samples."""
        return self

    def show(self, net: Net, model: Tree, groups: Tensor) -> Tensor:
        """What is seen of normalised samples [n, group, ...]: one row per group."""
        raise TypeError(f"{self.name} does not say what is seen: define show()")

    def of(self, client: ClientView, groups: Ids) -> tuple[Tensor, Tensor]:
        """(the first sample of every group of a client's, by position in its list, and what is seen of the group)."""
        held = client.samples(torch.from_numpy(groups.reshape(-1)))
        held = held.reshape(*groups.shape, *held.shape[1:])
        return held[:, 0], self.show(client.net, client.model, held)

    def __str__(self) -> str:
        values = ", ".join(str(v) for f in fields(self) if (v := getattr(self, f.name)) != "full")
        return f"{self.name}({values})" if values else self.name


@dataclass(frozen=True)
class RawSamples(View):
    """The sample as it is (FedData)."""

    name: ClassVar[str] = "samples"

    def show(self, net: Net, model: Tree, groups: Tensor) -> Tensor:
        return groups[:, 0]


@dataclass(frozen=True)
class Averages(View):
    """The mean of some samples of one client (FedMix)."""

    name: ClassVar[str] = "averages"

    size: int = 10  # samples behind one average; 0 for all of a client's

    def __post_init__(self) -> None:
        if self.size < 0:
            raise InputError(
                f"size of averages is a number of samples, or 0 for all of a client's, not {self.size}"
            )

    @property
    def group(self) -> int:
        return max(1, self.size)

    def at(self, client: int) -> View:
        return self if self.size else Averages(client)

    def show(self, net: Net, model: Tree, groups: Tensor) -> Tensor:
        return groups.mean(1)


@dataclass(frozen=True)
class Features(View):
    """The activation at a layer of the global model, in evaluation mode (FLea, section 3.2)."""

    name: ClassVar[str] = "features"
    of_model: ClassVar[bool] = True

    layer: str  # one of the model's; ``last`` is what its classifier sees
    store: Store = "full"  # in how many bytes a number travels

    def show(self, net: Net, model: Tree, groups: Tensor) -> Tensor:
        return self._stored(net.judge(model, groups[:, 0], upto=self._at(net)))

    def of(self, client: ClientView, groups: Ids) -> tuple[Tensor, Tensor]:
        first = torch.from_numpy(groups[:, 0].copy())
        return client.samples(first), self._stored(client.embed(self._at(client.net), first))

    def _at(self, net: Net) -> str:
        return net.judging.last_layer if self.layer == "last" else self.layer

    def _stored(self, rows: Tensor) -> Tensor:
        if self.store == "full":
            return rows
        return restore_rows(
            store_rows(rows, self.store), torch.arange(len(rows), device=rows.device), rows.dtype
        )


VIEWS: dict[str, type[View]] = {view.name: view for view in (RawSamples, Averages, Features)}


def view(text: str | View) -> View:
    """The view that an expression names."""
    return text if isinstance(text, View) else build(text, VIEWS, "view")


def views_of(parts: Iterable[Part], client: int) -> dict[str, View]:
    """Part name -> what it shows others of the data of a client of this size, of those parts that show something."""
    return {part.name: view(part.sends).at(client) for part in parts if part.sends}
