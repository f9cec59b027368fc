"""A run under attack: its models, what its method shows of clients' data, and the samples that the attacker has.

The clients stay behind their engine: what is wanted of them is asked for by its verbs. What an attacker learns from,
paints marks into and guesses by are samples of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.core.engine import Engine
from unskew.core.net import Net
from unskew.core.roster import Roster
from unskew.core.state import State, load_state
from unskew.core.types import Ids, Tree
from unskew.core.views import View, view, views_of
from unskew.data import from_arrays
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.privacy.groups import Groups
from unskew.renamed import accepts_old_names
from unskew.runs.choose_engine import choose, device_of
from unskew.runs.correlation import shown, taken
from unskew.runs.folder import RunFolder, read_folder
from unskew.runs.load_data import load_dataset
from unskew.runs.setup import Setup, set_up
from unskew.runs.snapshots import kept_rounds, read_model
from unskew.runs.spec import Spec


@dataclass
class Subject:
    """What the attacks of this package are handed. ``given`` is the data set that was given in Python, if one was."""

    folder: RunFolder
    spec: Spec
    setup: Setup
    path: Path
    given: Any = None

    @property
    def net(self) -> Net:
        return self.setup.job.judging_net

    @cached_property
    def dataset(self) -> Dataset:
        """The attacker's own samples: a copy of the whole data set, which is more than a real attacker would have."""
        given = self.given
        if given is None:
            return load_dataset(self.spec)
        found = given.dataset if isinstance(given, Federation) else given
        found = found if isinstance(found, Dataset) else from_arrays(*found)
        return found.with_pixels(self.spec.pixels)

    @property
    def about(self) -> Dataset:
        """What samples look like, and no sample of a client's."""
        return self.setup.job.roster.dataset

    @property
    def dealt(self) -> Roster:
        """What is known of what clients held before anything was shared."""
        return self.setup.run.as_dealt

    @property
    def device(self) -> str:
        return self.setup.run.device

    @property
    def dtype(self) -> torch.dtype:
        return self.setup.job.dtype

    @property
    def rounds(self) -> list[int]:
        """The rounds whose models there are: those that were kept, and the last."""
        last = load_state(self.path / "state")
        return sorted({*kept_rounds(self.path), *([last.round] if last else [])})

    def model(self, round: int | None = None) -> tuple[int, Tree]:
        at, params = read_model(self.path, round)
        return at, {k: v.to(self.device) for k, v in params.items()}

    def state(self) -> State:
        """Everything the run remembers, as of its last checkpoint."""
        found = load_state(self.path / "state")
        if found is None:
            raise InputError(
                f"{self.path} has no checkpoint that can be read, and model updates need one; let it run first, or "
                "name the other attacks by --only"
            )
        return found.to(self.device)

    def views(self, named: tuple[str, ...] = ()) -> dict[str, View]:
        """What to attack: the views that are named, else what the run's method shows, by part."""
        typical = self.dealt.typical
        found = {text: view(text).at(typical) for text in named}
        found = found or views_of(self.setup.job.method.parts, typical)
        for one in found.values():
            if one.group > len(self.dataset):
                raise InputError(
                    f"{one} is over more samples than the {len(self.dataset):,} of {self.dataset.name}"
                )
            groups = torch.zeros((1, one.group, *self.about.shape), dtype=self.dtype, device=self.device)
            with torch.inference_mode():
                one.show(self.net, self.net.initial, groups)  # a layer that is not there is refused now
        return found

    def groups(self, places: Ids, test: bool = False) -> Tensor:
        """Normalised samples of the attacker's own, in the shape of ``places``."""
        return taken(self.dataset, places, self.device, self.dtype, test)

    def seen(self, model: Tree, view: View, places: Ids, test: bool = False) -> tuple[Tensor, Tensor]:
        """(the first sample of every group, what is seen of the group)."""
        return shown(self.net, model, view, self.dataset, places, self.device, self.dtype, test)

    def unit(self, normalised: Tensor) -> Tensor:
        """The same samples with values from 0 to 1, by the range of the pool."""
        low, high = (v.to(normalised) for v in self.range)
        return ((self.dataset.restore(normalised) - low) / (high - low)).clamp(0, 1)

    @cached_property
    def range(self) -> tuple[Tensor, Tensor]:
        """The least and the largest value in the pool: of each channel, or of each column of a table."""
        x = self.dataset.x
        others = (0, *range(2, x.ndim))
        low, high = (
            torch.from_numpy(np.asarray(found, np.float64)).reshape(-1, *[1] * (x.ndim - 2))
            for found in (x.min(axis=others), x.max(axis=others))
        )
        return low, torch.where(high > low, high, low + 1.0)

    @cached_property
    def drawn(self) -> Groups:
        """Groups of samples as the run's clients would average them."""
        return Groups(self.dealt.counts, self.dataset)


@accepts_old_names(data="dataset")
def subject(
    path: str | Path,
    *,
    dataset: Any = None,
    model: Any = None,
    data_folder: str | None = None,
    device: str | None = None,
    engine: Engine | None = None,
) -> Subject:
    """Open a run's folder for attack. ``dataset`` and ``model`` are what was given in Python, if it was.

    ``engine``: one of your own for the clients to live in.
    """
    folder, spec, about = read_folder(Path(path))
    if folder.damage:
        raise InputError(
            f"in {path}, {folder.damage}; make it whole by `unskew resume {path}`, then attack it"
        )
    if about.get("given") and dataset is None:
        raise InputError(
            f"{path} was run on data given in Python; attack it there: "
            f"unskew.privacy.attack({str(path)!r}, dataset=...)"
        )
    if about.get("own_model") and model is None:
        raise InputError(f"{path} was run with a model given in Python; attack it there with model=...")
    if data_folder is not None:
        spec = replace(spec, data_folder=data_folder)
    if device is not None:
        spec = replace(spec, device=device)
    if spec.device.startswith("cuda") and not torch.cuda.is_available():
        spec = replace(spec, device="cpu")  # trained on a GPU, attacked here
    if spec.engine == "ray":
        spec = replace(spec, engine="fast", ray=None)  # the same numbers, and no cluster is needed
    device_of(spec)
    cpu = spec.device == "cpu" or not torch.cuda.is_available()
    if cpu and spec.precision in ("tf32", "bf16"):
        spec = replace(spec, precision="fp32")
    if cpu:
        spec = replace(spec, compile=False)
    # the clients are asked a few questions and trained for a few visits: no workers are needed
    setup = set_up(spec, dataset, model, engine=engine or choose(spec, device_of(spec), 0.0))
    if not setup.job.method.schedule.exchanges:
        raise InputError(f"nothing leaves a client in {path} ({spec.method}), so there is nothing to attack")
    if about.get("sha256") not in (None, setup.about["sha256"]):
        raise InputError(f"the data of {path} is not what the run began with; give it the same data")
    return Subject(folder, spec, setup, Path(path), dataset)
