"""What clients remember between visits: rows made on first use, the oldest on disk past a budget of memory.

A store is never changed: ``put`` gives a new one that shares the old one's rows. Rows that no longer fit are appended
to a file without a name, so nothing is left behind however the process ends. A checkpoint copies them, so a resume
needs no such file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from unskew.core.memory import flatten, nest
from unskew.core.types import Ids, Memory, map_tensors, nbytes
from unskew.later import torch

BUDGET = 2 * 2**30
"""Bytes of clients' memories kept in this process's memory, unless a store says otherwise."""


class Spill:
    """Rows in a nameless file, one after the other."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the rows in it
        self.end = 0

    def append(self, row: Memory) -> Spilled:
        """Write a row; where it is."""
        flat = flatten(row)
        layout = tuple((path, v.dtype, tuple(v.shape)) for path, v in flat.items())
        at = self.end
        self.file.seek(at)
        for value in flat.values():
            self.end += self.file.write(raw(value))
        return Spilled(self, at, layout)


@dataclass(frozen=True)
class Spilled:
    """Where a row is on disk, and what it is made of."""

    spill: Spill
    at: int
    layout: tuple[tuple[str, torch.dtype, tuple[int, ...]], ...]

    def read(self) -> Memory:
        self.spill.file.seek(self.at)
        row = {}
        for name, dtype, shape in self.layout:
            value = torch.empty(shape, dtype=dtype)
            if value.numel():
                content = bytearray(self.spill.file.read(nbytes({name: value})))
                value = torch.frombuffer(content, dtype=dtype).reshape(shape)
            row[name] = value
        return nest(row)


@dataclass
class ClientStore:
    """Clients' memories by part. The order of ``rows`` is the order of last use, oldest first."""

    rows: dict[str, dict[int, Memory | Spilled]] = field(default_factory=dict)
    budget: int = BUDGET
    held: int = 0  # bytes in memory
    spill: Spill | None = None

    def get(self, part: str, client: int, default: Memory) -> Memory:
        row = self.rows.get(part, {}).get(client, default)
        return row.read() if isinstance(row, Spilled) else row

    def has(self, part: str, client: int) -> bool:
        return client in self.rows.get(part, {})

    def put(self, part: str, clients: Ids, memory: Memory) -> ClientStore:
        """The store with these clients' memories replaced; ``memory`` is stacked."""
        if not memory:
            return self
        held, rows = self.held, dict(self.rows.get(part, {}))
        for i, client in enumerate(clients.tolist()):
            old = rows.pop(client, None)
            held -= nbytes(old) if isinstance(old, dict) else 0
            # one layout, as a checkpoint or the disk would give it back: another rounds otherwise in a convolution
            fresh = map_tensors(
                lambda v, i=i: v[i].detach().cpu().clone(memory_format=torch.contiguous_format), memory
            )
            rows[client] = fresh
            held += nbytes(fresh)
        after = ClientStore(self.rows | {part: rows}, self.budget, held, self.spill)
        return after if held <= self.budget else after._spilled()

    def _spilled(self) -> ClientStore:
        """The store with its oldest rows on disk, until a tenth of the budget is free again."""
        spill, held = self.spill or Spill(), self.held
        every = {part: dict(rows) for part, rows in self.rows.items()}
        for rows in every.values():
            for client, row in rows.items():
                if held <= 0.9 * self.budget:
                    break
                if not isinstance(row, Spilled):
                    rows[client] = spill.append(row)
                    held -= nbytes(row)
        return ClientStore(every, self.budget, held, spill)._compacted()

    def _compacted(self) -> ClientStore:
        """The store with a fresh file, once most of the old one is rows that were replaced since."""
        assert self.spill is not None
        live = sum(_size(r) for rows in self.rows.values() for r in rows.values() if isinstance(r, Spilled))
        if self.spill.end <= 4 * live + self.budget:
            return self
        fresh = Spill()
        every = {
            part: {c: fresh.append(r.read()) if isinstance(r, Spilled) else r for c, r in rows.items()}
            for part, rows in self.rows.items()
        }
        return ClientStore(every, self.budget, self.held, fresh)

    def saved(self) -> Iterator[tuple[str, Ids, str, torch.dtype, tuple[int, ...], Iterator[torch.Tensor]]]:
        """For a checkpoint: part, client ids, path, dtype and shape of a row, and the rows one by one."""
        for part, rows in self.rows.items():
            ids = torch.tensor(sorted(rows), dtype=torch.int64).numpy()
            first = self.get(part, int(ids[0]), {}) if len(ids) else {}
            for path, value in flatten(first).items():
                yield part, ids, path, value.dtype, tuple(value.shape), self._column(part, ids, path)

    def _column(self, part: str, ids: Ids, path: str) -> Iterator[torch.Tensor]:
        for client in ids.tolist():
            yield flatten(self.get(part, client, {}))[path]


def _size(row: Spilled) -> int:
    return sum(torch.empty(0, dtype=d).element_size() * torch.Size(s).numel() for _, d, s in row.layout)


def raw(value: torch.Tensor) -> memoryview:
    """A tensor's bytes."""
    whole = value.detach().cpu().contiguous()
    # by a step of its own: of a row that holds one number, as it was stacked, torch may know a step of 0
    return whole.as_strided((whole.numel(),), (1,)).view(torch.uint8).numpy().data
