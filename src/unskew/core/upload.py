"""An update on its way up: encoded where the client is, part after part, and decoded at the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from unskew.core.engine import Job
from unskew.core.slots import Upload
from unskew.core.types import Leg, Memory, Message, Tree, Update, moved_by, stack
from unskew.seeds import generator


def encode_change(
    parts: Sequence[Upload], change: Tree, mine: Mapping[str, Memory], seed: int, t: int, client: int
) -> tuple[Message, dict[str, Memory]]:
    """What leaves this client, and what it remembers by part if it lands."""
    message, remembered = Message(), {}
    for part in parts:
        rng = generator(seed, "upload", part.name, t, client)
        sent, remembered[part.name] = part.encode(change, mine[part.name], rng)
        message.shapes.append({k: tuple(v.shape) for k, v in change.items()})
        if part is parts[-1]:
            message.sent.append(sent)
            break
        message.sent.append({k: v for k, v in sent.items() if k not in change})
        change = {k: sent[k] for k in change}
    return message, remembered


def decode_change(parts: Sequence[Upload], message: Message) -> Tree:
    """The change that a message tells, each part undone in turn; it looks at no other client's."""
    change: Tree = {}
    for part, sent, shapes in reversed(list(zip(parts, message.sent, message.shapes, strict=True))):
        change = part.decode(change | sent, shapes)
    return change


def message_bytes(parts: Sequence[Upload], message: Message) -> int:
    """What a message takes on its way: the last part's, and what those before it send beside the numbers."""
    return sum(part.size(sent) for part, sent in zip(parts, message.sent, strict=True))


def decode_model(parts: Sequence[Upload], message: Message, anchor: Tree, statistics: Tree) -> Tree:
    """The model that a client uploaded, as the server has it: the global one moved by the decoded change."""
    change = decode_change(parts, message)
    moved = moved_by({k: anchor[k] for k in change}, change)
    return {k: moved[k] if k in moved else statistics[k] for k in anchor}


def decode_update(job: Job, leg: Leg, update: Update) -> Update:
    """The update with the models that its messages tell; as it is where nothing was encoded."""
    if not update.messages:
        return update
    parts, models = job.method.encoders, []
    for i, message in enumerate(update.messages):
        anchor = leg.anchor
        if anchor is None:
            anchor = {k: v[update.rows[i]] for k, v in leg.start.items()} if leg.stacked else leg.start
        models.append(decode_model(parts, message, anchor, {k: v[i] for k, v in update.params.items()}))
    params = stack(models)
    # the server sees the last leg alone: how far earlier legs went stays between clients
    moved = {k: params[k] - update.base[k] for k in job.net.trainable}
    return replace(update, params=params, moved=moved, messages=[])


def upload_bytes(job: Job, sent: Sequence[int], model: Tree) -> torch.Tensor:
    """Bytes of each client's upload: its message, and the statistics of batch norm where these travel."""
    statistics = {k: model[k] for k in job.net.buffers}
    beside = job.net.travelling_bytes(statistics, job.batch_norm)
    return torch.tensor([size + beside for size in sent], dtype=torch.int64)
