"""Checkpoints of format 1, of versions whose memories were flat: key prefixes become the trees that they stood for."""

from __future__ import annotations

from unskew.core.memory_names import LATE
from unskew.core.types import NESTED, TREES, Memory, Tree

PREFIXES = {
    "fedfa": {"m": "momentum"},
    "fedfv": {"g": "gradients"},
    "feddyn": {"gone": "gone"},
    "moon": {"last": "last"},
    "fedgen": {"net": "net", "adam": "adam"},
}
"""Part -> prefix, as in ``m:conv1.weight`` -> the tree that holds these now. Names of heads have a colon too
(``fedbr:0.weight``), so no other prefix means anything."""

WAITING = (LATE, "phase_shift")
"""Who keeps whole updates: ``params|conv1.weight``, ``memory|feddyn|gone:conv1.weight``."""


def upgrade_memory(part: str, flat: Tree) -> Memory:
    """What a part remembers, as this version has it."""
    memory: Memory = {}
    if part in WAITING:
        by_part: dict[str, dict[str, Tree]] = {kind: {} for kind in NESTED}
        for key, value in flat.items():
            kind, _, name = key.partition("|")
            if kind in NESTED:
                who, _, name = name.partition("|")
                by_part[kind].setdefault(who, {})[name] = value
            elif kind in (*TREES, "settings"):
                memory.setdefault(kind, {})[name] = value
            else:
                memory[key] = value
        for kind, found in by_part.items():
            memory |= {kind: {who: upgrade_memory(who, tree) for who, tree in found.items()}} if found else {}
        return memory  # nothing where nobody is late
    trees = PREFIXES.get(part, {})
    for key, value in flat.items():
        prefix, colon, name = key.partition(":")
        if not (colon and prefix in trees):
            memory[key] = value
            continue
        tree = memory.setdefault(trees[prefix], {})
        if prefix == "adam":
            kind, _, name = name.partition(":")
            tree = tree.setdefault(kind, {})
        tree[name] = value
    return memory
