"""Everything a resume reads, and nothing else."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.core.checkpoint_files import FORMAT, SEAL, SEAL_BYTES, checkpoints, newest
from unskew.core.memory import flatten, nest
from unskew.core.old_checkpoints import upgrade_memory
from unskew.core.store import ClientStore, raw
from unskew.core.types import Memory, Tree, map_tensors
from unskew.files import write_file
from unskew.later import torch
from unskew.version import __version__

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class State:
    """The whole memory of a run between two rounds."""

    round: int
    params: Tree
    server: dict[str, Memory]
    clients: ClientStore
    seed: int

    def to(self, device: str) -> State:
        """The server's numbers on a device; its counters, and what clients remember, stay on the host."""

        def there(tree: Memory) -> Memory:
            return map_tensors(lambda v: v.to(device) if v.is_floating_point() else v, tree)

        server = {part: there(memory) for part, memory in self.server.items()}
        return State(self.round, there(self.params), server, self.clients, self.seed)

    def entries(self) -> Iterator[SavedTensor]:
        """Everything, name by name: what is saved. Rows of clients are never all in memory at once."""
        for name, value in self.params.items():
            yield SavedTensor.of(f"params/{name}", value)
        for part, memory in self.server.items():
            for path, value in flatten(memory).items():
                yield SavedTensor.of(f"server/{part}/{path}", value)
        told: set[str] = set()
        for part, ids, path, dtype, shape, rows in self.clients.saved():
            if part not in told:
                told.add(part)
                yield SavedTensor.of(f"ids/{part}", torch.from_numpy(ids))
            yield SavedTensor(f"clients/{part}/{path}", dtype, (len(ids), *shape), map(raw, rows))


@dataclass
class SavedTensor:
    """One tensor of a checkpoint, its bytes in pieces."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    pieces: Iterable[bytes | memoryview]

    @staticmethod
    def of(name: str, value: Tensor) -> SavedTensor:
        return SavedTensor(name, value.dtype, tuple(value.shape), [raw(value)])

    @property
    def size(self) -> int:
        return torch.Size(self.shape).numel() * torch.empty(0, dtype=self.dtype).element_size()


DTYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}
"""The names that the safetensors format gives torch's types."""


def save_state(state: State, folder: Path) -> Path:
    """Write a checkpoint atomically and keep the last two: a kill at any instant leaves a whole one."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{state.round:06d}.safetensors"
    write_file(path, checkpoint(state))
    for _, old in checkpoints(folder)[:-2]:
        old.unlink()
    return path


def checkpoint(state: State) -> Iterator[bytes | memoryview]:
    """The bytes of a checkpoint, piece by piece."""
    about = {"format": FORMAT, "unskew": __version__, "round": state.round, "seed": state.seed}
    about |= {"parts": sorted(state.server)}
    return sealed(state.entries(), {"unskew": json.dumps(about)})


def forget_after(folder: Path, round: int) -> None:
    """Delete checkpoints of later rounds: left there, they would count as the last two that are kept."""
    for later, path in checkpoints(folder):
        if later > round:
            path.unlink()


def sealed(entries: Iterable[SavedTensor], metadata: dict[str, str]) -> Iterator[bytes | memoryview]:
    """A safetensors file that ends with a hash of itself, taken while it is written piece by piece."""
    content = hashlib.blake2b(digest_size=SEAL_BYTES)

    def digest() -> Iterator[bytes]:
        yield content.digest()

    seal = SavedTensor(SEAL, torch.uint8, (SEAL_BYTES,), digest())
    for piece in safetensors(itertools.chain(entries, [seal]), metadata):
        content.update(piece)
        yield piece


def safetensors(entries: Iterable[SavedTensor], metadata: dict[str, str]) -> Iterator[bytes | memoryview]:
    """A file of the safetensors format, piece by piece: the library itself wants all of it in memory."""
    held = list(entries)
    header: dict[str, Any] = {"__metadata__": metadata}
    at = 0
    for entry in held:
        offsets = [at, at := at + entry.size]
        dtype = DTYPES[str(entry.dtype).removeprefix("torch.")]
        header[entry.name] = {"dtype": dtype, "shape": entry.shape, "data_offsets": offsets}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for entry in held:
        yield from entry.pieces


def load_state(folder: Path, known: int | None = None, like: Tree | None = None) -> State | None:
    """The newest whole checkpoint of a folder; None where there is none.

    A resume wants one of the first ``known`` rounds, since those are in its log, and of a model ``like`` its own.
    """

    def read(file: Any, about: dict[str, Any]) -> State | None:
        state = _read(file, about)
        return state if like is None or _has(state.params, like) else None

    return newest(folder, "pt", read, known)


def _has(params: Tree, like: Tree) -> bool:
    """Whether every tensor is there, in its shape."""
    return all(name in params and params[name].shape == value.shape for name, value in like.items())


def _read(file: Any, about: dict[str, Any], at_once: int = 256) -> State:
    """The state in an open checkpoint; rows of clients are read some at a time, so that they may spill."""
    state = State(about["round"], {}, {}, ClientStore(), about["seed"])
    remembered: dict[str, list[str]] = {}
    server: dict[str, Tree] = {part: {} for part in about["parts"]}

    def as_now(part: str, flat: Tree) -> Memory:
        return upgrade_memory(part, flat) if about["format"] == 1 else nest(flat)

    for key in file.keys():  # noqa: SIM118  not a dict
        kind, _, rest = key.partition("/")
        part, _, name = rest.partition("/")
        if kind == "params":
            state.params[rest] = file.get_tensor(key).clone()
        elif kind == "server":
            server.setdefault(part, {})[name] = file.get_tensor(key).clone()
        elif kind == "clients":
            remembered.setdefault(part, []).append(name)
        elif kind not in ("ids", SEAL):
            raise ValueError(f"{key} is nothing that a checkpoint holds")
    for part, names in remembered.items():
        ids = file.get_tensor(f"ids/{part}").numpy()
        for start in range(0, len(ids), at_once):
            some = slice(start, start + at_once)
            rows = {n: file.get_slice(f"clients/{part}/{n}")[some] for n in names}
            state.clients = state.clients.put(part, ids[some], as_now(part, rows))
    state.server = {part: as_now(part, flat) for part, flat in server.items()}
    return state


def initial_state(params: Tree, memories: Mapping[str, Memory], seed: int) -> State:
    return State(0, params, {name: dict(memory) for name, memory in memories.items()}, ClientStore(), seed)
