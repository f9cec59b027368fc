"""Everything a resume reads, and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from unskew.errors import InputError
from unskew.types import Ids, Tree

FORMAT = 1
"""Version of the checkpoint's layout; a folder of another version is refused, not guessed at."""


@dataclass
class ClientStore:
    """What clients remember between visits, by part: a row is made when a client first has something to keep."""

    rows: dict[str, dict[int, Tree]] = field(default_factory=dict)

    def get(self, part: str, client: int, default: Tree) -> Tree:
        return self.rows.get(part, {}).get(client, default)

    def put(self, part: str, clients: Ids, memory: Tree) -> ClientStore:
        """The store with these clients' memories replaced; ``memory`` is stacked."""
        if not memory:
            return self
        fresh = {int(c): {k: v[i].cpu().clone() for k, v in memory.items()} for i, c in enumerate(clients)}
        return ClientStore(self.rows | {part: self.rows.get(part, {}) | fresh})


@dataclass
class State:
    """The whole memory of a run between two rounds."""

    round: int
    params: Tree
    server: dict[str, Tree]
    clients: ClientStore
    seed: int

    def to(self, device: str) -> State:
        """The server's half on a device; what clients remember stays on the host."""
        server = {part: {k: v.to(device) for k, v in tree.items()} for part, tree in self.server.items()}
        params = {k: v.to(device) for k, v in self.params.items()}
        return State(self.round, params, server, self.clients, self.seed)

    def flat(self) -> Tree:
        """One tree of everything: what is saved."""
        tree = {f"params/{k}": v for k, v in self.params.items()}
        tree |= {f"server/{part}/{k}": v for part, memory in self.server.items() for k, v in memory.items()}
        for part, rows in self.clients.rows.items():
            ids = sorted(rows)
            tree[f"ids/{part}"] = torch.tensor(ids, dtype=torch.int64)
            for name in rows[ids[0]] if ids else ():
                tree[f"clients/{part}/{name}"] = torch.stack([rows[i][name] for i in ids])
        return tree

    @staticmethod
    def unflat(tree: Mapping[str, Tensor], round: int, seed: int, parts: list[str]) -> State:
        state = State(round, {}, {part: {} for part in parts}, ClientStore(), seed)
        ids = {k.split("/", 1)[1]: v for k, v in tree.items() if k.startswith("ids/")}
        for key, value in tree.items():
            kind, _, rest = key.partition("/")
            part, _, name = rest.partition("/")
            if kind == "params":
                state.params[rest] = value
            elif kind == "server":
                state.server.setdefault(part, {})[name] = value
            elif kind == "clients":
                rows = state.clients.rows.setdefault(part, {})
                for i, client in enumerate(ids[part].tolist()):
                    rows.setdefault(client, {})[name] = value[i]
        return state


def save_state(state: State, folder: Path) -> Path:
    """Write a checkpoint atomically and keep the last two: a kill at any instant leaves a whole one."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {"format": FORMAT, "round": state.round, "seed": state.seed, "parts": sorted(state.server)}
    tree = _apart({k: v.detach().cpu().contiguous() for k, v in state.flat().items()})
    path = folder / f"{state.round:06d}.safetensors"
    write_atomically(path, save(tree, {"unskew": json.dumps(about)}))
    for old in sorted(folder.glob("*.safetensors"))[:-2]:
        old.unlink()
    return path


def _apart(tree: Tree) -> Tree:
    """Tensors that share memory as copies, which the format asks for: a part may remember the model itself."""
    seen: set[int] = set()
    for name, value in tree.items():
        place = value.untyped_storage().data_ptr()
        tree[name] = value.clone() if place in seen else value
        seen.add(place)
    return tree


def load_state(folder: Path) -> State | None:
    """The newest whole checkpoint of a folder; None where there is none yet."""
    for path in sorted(folder.glob("*.safetensors"), reverse=True):
        try:
            with safe_open(path, framework="pt") as file:
                about = json.loads(file.metadata()["unskew"])
                version = about["format"]
                tree = {k: file.get_tensor(k).clone() for k in file.keys()}  # noqa: SIM118  not a dict
        except (SafetensorError, KeyError, TypeError, ValueError, OSError):
            continue  # damaged from outside: the one before it is whole
        if version != FORMAT:
            raise InputError(
                f"{path.name} has checkpoint format {version}, this version reads {FORMAT}; "
                f"resume it with the version of unskew that wrote it"
            )
        return State.unflat(tree, about["round"], about["seed"], about["parts"])
    return None


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write beside the target, make it durable, then rename: the target is old or new, never half."""
    data = content.encode() if isinstance(content, str) else content
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def initial_state(params: Tree, memories: Mapping[str, Tree], seed: int) -> State:
    return State(0, params, {name: dict(memory) for name, memory in memories.items()}, ClientStore(), seed)


NOBODY: Ids = np.zeros(0, np.int64)
