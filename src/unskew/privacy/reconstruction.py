"""The reconstruction attack: a decoder learns to turn what is shared back into the sample (FLea, appendix D).

The attacker knows the global model and has samples of its own, the training set here, which is more than a real
one would have. It trains a decoder against the model's frozen lower layers and is judged on the test set, which it
has not seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from unskew.core.types import Ids, Tree
from unskew.core.views import RawSamples, View
from unskew.errors import InputError
from unskew.expression import AtMost
from unskew.privacy.attackers import decoder, made
from unskew.privacy.quality import judge_likeness, mse
from unskew.privacy.subject import Subject
from unskew.seeds import generator

SHOWN = 10
"""Test samples in the picture, the same for every view and round."""


@dataclass(frozen=True)
class Reconstruction:
    """How the decoder is trained.

    epochs, batch, lr: appendix D and the authors' code: 20 passes, batches of 128, 0.001.
    optimizer: ``adam``, the stronger attacker, or the authors' ``sgd`` with momentum 0.9 and decay 5e-4.
    samples: of the training set that the attacker has; None is all of them.
    test: of the test set that it is judged on.
    """

    epochs: Annotated[int, AtMost(10_000)] = 20
    batch: Annotated[int, AtMost(65_536)] = 128
    lr: float = 0.001
    optimizer: Literal["adam", "sgd"] = "adam"
    samples: int | None = None
    test: int = 1000

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "samples", "test"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(
                    f"{name} of the reconstruction must be at least 1, not {getattr(self, name)}"
                )

    def steps(self, pool: int) -> int:
        """How many steps the attacker takes on a pool of this many samples."""
        return self.epochs * -(-self.available(pool) // self.batch)

    def available(self, pool: int) -> int:
        return pool if self.samples is None else min(pool, self.samples)


@dataclass
class Reconstructed:
    """What an attack on one view of one model found."""

    record: dict[str, Any]
    originals: Tensor  # [SHOWN, ...] from 0 to 1
    found: Tensor


def reconstruct(
    subject: Subject,
    model: Tree,
    view: View,
    how: Reconstruction | None = None,
    *,
    seed: int = 0,
    advance: Callable[[int], None] = lambda steps: None,
) -> Reconstructed:
    """Train a decoder against one view of one model; MSE, PSNR and SSIM after every epoch.

    ``blind`` is what knowing nothing but the mean of the training samples gives: the floor that a defence can
    reach. Of an average the sample to be found is one of those behind it.
    """
    how = how or Reconstruction()
    began = time.perf_counter()
    pool, tests = len(subject.dataset), len(subject.dataset.y_test)
    mine = generator(seed, "reconstruction", "samples").permutation(pool)[: how.available(pool)]
    chosen = generator(seed, "reconstruction", "test").permutation(tests)[: min(how.test, tests)]

    def grouped(places: Ids, word: str, test: bool = False) -> Ids:
        """Each place with the others that are averaged with it."""
        rng = generator(seed, "reconstruction", "partners", word)
        return subject.drawn.around(places, view.group, rng, test)

    seen_at_test = grouped(chosen, "test", test=True)
    probe = grouped(mine[: min(512, len(mine))], "probe")
    with torch.no_grad():
        like = subject.seen(model, view, probe)[1].float()
    shape = subject.dataset.shape
    attacker = made(lambda: decoder(like.cpu(), shape), seed, "decoder", str(view)).to(subject.device)
    exact = isinstance(view, RawSamples)
    curve: list[dict[str, float]] = []
    rule: torch.optim.Optimizer = (
        torch.optim.Adam(attacker.parameters(), how.lr)
        if how.optimizer == "adam"
        else torch.optim.SGD(attacker.parameters(), how.lr, momentum=0.9, weight_decay=5e-4)
    )

    def decoded(places: Ids, test: bool = False) -> tuple[Tensor, Tensor]:
        """(what was to be found, what the attacker makes of what is seen)."""
        with torch.no_grad():
            first, seen = subject.seen(model, view, places, test)
            original = subject.unit(first).float()
        return original, original if exact else attacker(seen.float())

    def test() -> tuple[dict[str, float], Tensor, Tensor]:
        pieces = []
        with torch.no_grad():
            for start in range(0, len(chosen), 250):
                pieces.append(decoded(seen_at_test[start : start + 250], test=True))
        originals, found = (torch.cat([p[k] for p in pieces]) for k in (0, 1))
        return judge_likeness(found, originals), originals[:SHOWN].cpu(), found[:SHOWN].cpu()

    for epoch in range(0 if exact else how.epochs):
        order = generator(seed, "reconstruction", "order", epoch).permutation(mine)
        partners = grouped(order, f"epoch {epoch}")
        total = torch.zeros((), device=subject.device)
        for start in range(0, len(order), how.batch):
            original, found = decoded(partners[start : start + how.batch])
            error = mse(found, original).mean()
            rule.zero_grad()
            error.backward()  # type: ignore[no-untyped-call]
            rule.step()
            total += error.detach() * len(original)
            advance(1)
        curve.append({"epoch": epoch + 1, "train_mse": float(total) / len(order)} | test()[0])
    final, originals, found = test()
    record = {
        "view": str(view),
        **final,
        "blind": _blind(subject, mine, chosen),
        "curve": curve,
        "train_mse": curve[-1]["train_mse"] if curve else 0.0,
        "samples": len(mine),
        "test_samples": len(chosen),
        "epochs": len(curve),
        "optimizer": how.optimizer,
        "lr": how.lr,
        "wall_s": round(time.perf_counter() - began, 2),
    }
    return Reconstructed(record, originals, found)


def _blind(subject: Subject, mine: Ids, chosen: Ids) -> dict[str, float]:
    """The mean of the attacker's samples, held against every test sample."""
    some = subject.unit(subject.groups(mine[:2000])).float()
    originals = subject.unit(subject.groups(chosen, test=True)).float()
    return judge_likeness(some.mean(0, keepdim=True).expand_as(originals), originals)
