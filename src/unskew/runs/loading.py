"""What a spec names, found and read: the method's parts, the device, the data and who holds it. No model is made."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unskew.arrays import wide_blocks
from unskew.core.decay import Decay, decay
from unskew.core.method import Method
from unskew.core.slots import Local
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.network import network_of
from unskew.notices import warn
from unskew.runs.check_measures import check_measures
from unskew.runs.choose_engine import device_name
from unskew.runs.describe import names
from unskew.runs.load_data import load_federation
from unskew.runs.move_images import check_images, with_moved_images
from unskew.runs.spec import Spec, UnsaidNumber


@dataclass(frozen=True)
class Loaded:
    """What the words of a spec name: the method's parts, the decay, the device, the data."""

    method: Method
    decay: Decay
    device: str
    federation: Federation
    partition: Any
    given: bool  # whether the data came from Python

    @property
    def fingerprint(self) -> str:
        """Of the samples and of who holds them."""
        content, dataset = hashlib.sha256(), self.federation.dataset
        for array in (dataset.x, dataset.y, dataset.x_test, dataset.y_test):
            content.update(np.ascontiguousarray(array).data)
        for lists in (self.federation.indices, self.federation.offsets):
            for block in wide_blocks(lists):  # whatever they are kept in
                content.update(block.data)
        return content.hexdigest()


def load(
    spec: Spec,
    data: Dataset | Federation | tuple[Any, ...] | None = None,
    method: str | Method | None = None,
) -> Loaded:
    """What the spec names, words before data: a word that there is not is refused before a file is read."""
    method = Method.parse(spec.method if method is None else method)
    falls, device = decay(spec.decay), device_name(spec)
    check_measures(spec.measure, method)
    if spec.keep and not method.schedule.exchanges:
        raise InputError(f"keep keeps global models, and {method} makes none; leave keep out")
    federation, partition = load_federation(spec, data)
    drawn_by = spec.seed if spec.partition_seed is None else spec.partition_seed
    federation = federation.set_aside(spec.client_test, spec.validation, spec.validation_of, drawn_by)
    if spec.network is not None:
        network = network_of(spec.network)
        network.check(federation.clients)
        federation = replace(federation, network=network)
    check_images(federation.dataset, spec.crop, spec.flip)
    method = with_moved_images(method, spec.crop, spec.flip)
    return Loaded(method, falls, device, federation, partition, data is not None)


def is_saved(partition: Any, path: Path) -> bool:
    """Whether what was saved there is whole and is this partition; where there is none, nothing need be saved."""
    from unskew.data.partition import Partition

    if partition is None:
        return True
    try:
        return bool(Partition.load(path).record["sha256"] == partition.record["sha256"])
    except InputError:
        return False


def auto_model(name: str, dataset: Dataset) -> str:
    """``auto``: a small convolutional network for images of 28 pixels and more, else one hidden layer."""
    if name != "auto":
        return name
    return "small_cnn" if dataset.kind == "image" and min(dataset.shape[1:]) >= 28 else "mlp"


def cohort_of(spec: Spec, federation: Federation) -> int:
    """How many clients a round asks; where the data brings its clients, at most all of them.

    What nobody wrote gives way to the data without a word.
    """
    clients = federation.clients
    count = max(1, round(spec.cohort * clients)) if spec.cohort < 1 else int(spec.cohort)
    if count <= clients or isinstance(spec.cohort, UnsaidNumber):
        return min(count, clients)
    if federation.names is None and not spec.partition.startswith("by("):
        raise InputError(
            f"the cohort of {count} is larger than the {clients} clients; write cohort = {clients} or less"
        )
    warn(
        f"a cohort of {count} is more than the {clients} clients there are, so all of them take part every round"
    )
    return clients


def local_of(spec: Spec) -> Local:
    """How a client trains where no part says otherwise: one epoch where nothing is said."""
    return Local(
        epochs=spec.epochs if spec.epochs is not None or spec.steps is not None else 1.0,
        **{k: getattr(spec, k) for k in Local.__dataclass_fields__ if k != "epochs"},
    )


def settled(spec: Spec, cohort: int) -> Spec:
    """The spec with what the data decided where nobody wrote it."""
    if spec.sites is not None:  # the sites are what they are, whatever a simulation was dealt
        given = {name: Spec.__dataclass_fields__[name].default for name in names(Spec, "dealing")}
        fixed: dict[str, Any] = given | {"partition": "sites", "partition_seed": spec.partition_seed}
        spec = replace(spec, **fixed)
    fewer = isinstance(spec.cohort, UnsaidNumber) and cohort < spec.cohort
    return replace(spec, cohort=cohort) if fewer else spec
