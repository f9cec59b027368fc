"""The context identification attack: does what is shared still tell whose camera took it? (FLea, section 4.4)

A client's context is played by a coloured square in its images, as of a broken sensor. A binary attacker learns,
from examples with and without it, to see the square in what is shared; the more examples it needs, the better the
context is hidden. An average of several samples of one client holds the square as every one of them does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from unskew.core.types import Ids, Tree
from unskew.core.views import View
from unskew.errors import InputError
from unskew.expression import AtMost
from unskew.privacy.attackers import detector, made
from unskew.privacy.subject import Subject
from unskew.renamed import accepts_old_names
from unskew.runs.correlation import in_pieces
from unskew.seeds import generator

COLOURS = {
    "red": (1.0, 0.0, 0.0),
    "green": (0.0, 1.0, 0.0),
    "blue": (0.0, 0.0, 1.0),
    "white": (1.0, 1.0, 1.0),
}


@dataclass(frozen=True)
class Context:
    """The square, and how the attacker learns to see it. The paper gives neither size, colour nor classifier.

    square: its side, as a share of the image's shorter side.
    place: ``any`` gives every client's camera a spot of its own; ``corner`` all the same one, a side from the corner.
    colour: red, green, blue or white; in samples without three channels, the largest value.
    examples: numbers of examples (things that are shared, half of them marked) that the attacker learns from.
    repeats: independent draws of them; the accuracy is the mean.
    steps, batch, lr: of Adam.
    test: how many fresh ones it is judged on.
    """

    square: float = 0.125
    place: Literal["any", "corner"] = "any"
    colour: str = "red"
    examples: tuple[int, ...] = (10, 30, 100, 300, 1000, 3000, 10000)
    repeats: Annotated[int, AtMost(1000)] = 3
    steps: Annotated[int, AtMost(1_000_000)] = 600
    batch: Annotated[int, AtMost(65_536)] = 64
    lr: float = 0.001
    test: int = 1000

    def __post_init__(self) -> None:
        if self.colour not in COLOURS:
            raise InputError(f"colour of the square is {', '.join(COLOURS)}, not {self.colour!r}")
        if not 0 < self.square <= 0.5:
            raise InputError(
                f"square is a share of the image's side, above 0 and at most 0.5, not {self.square}"
            )
        for name in ("repeats", "steps", "batch", "test"):
            if getattr(self, name) < 1:
                raise InputError(
                    f"{name} of the context attack must be at least 1, not {getattr(self, name)}"
                )
        if not self.examples or min(self.examples) < 2:
            raise InputError("the attacker needs at least 2 examples, one of each kind, to learn from")

    @property
    def work(self) -> int:
        """Steps of all attackers together."""
        return self.steps * self.repeats * len(self.examples)

    def marked(self, subject: Subject, groups: Tensor, which: Tensor, rng: np.random.Generator) -> Tensor:
        """Normalised groups with the square in every sample of those that ``which`` names, each at its own place."""
        shape = tuple(int(n) for n in groups.shape[2:])
        side = self.side(shape)
        low, high = (v.to(groups) for v in subject.range)
        values = torch.tensor(COLOURS[self.colour]) if shape[0] == 3 else torch.ones(shape[0])
        painted = subject.dataset.normalise(low + (high - low) * values.to(groups).reshape(-1, 1, 1))
        inside = []
        for length in shape[1:]:
            most = length - side
            start = (
                rng.integers(0, most + 1, len(groups))
                if self.place == "any"
                else np.full(len(groups), min(side, most))
            )
            at, first = torch.arange(length), torch.from_numpy(start)[:, None]
            inside.append((at >= first) & (at < first + side))
        square = (inside[0][:, :, None] & inside[1][:, None, :]).to(groups.device) & which[:, None, None]
        return torch.where(square[:, None, None], painted, groups)

    def side(self, shape: tuple[int, ...]) -> int:
        """The square's side in samples of this shape."""
        if len(shape) != 3:
            raise InputError(
                f"a square can be painted into samples of three axes, not of shape {'x'.join(map(str, shape))}"
            )
        return max(1, round(self.square * min(shape[1:])))


Context.__init__ = accepts_old_names(sizes="examples")(Context.__init__)  # type: ignore[method-assign]


def identify(
    subject: Subject,
    model: Tree,
    view: View,
    how: Context | None = None,
    *,
    seed: int = 0,
    advance: Callable[[int], None] = lambda steps: None,
) -> dict[str, Any]:
    """How well attackers who learn from ever more examples tell whether the square is behind what is shared."""
    how = how or Context()
    how.side(subject.dataset.shape)
    began = time.perf_counter()
    data = subject.dataset
    tests = subject.drawn.fresh(how.test, view.group, generator(seed, "context", "test"), test=True)
    seen_at_test, answers = _seen(
        subject, model, view, how, tests, generator(seed, "context", "places", "test"), True
    )
    points: list[dict[str, Any]] = []
    for size in how.examples:
        hits = []
        for repeat in range(how.repeats):
            rng_words = ("context", size, repeat)
            places = subject.drawn.fresh(size, view.group, generator(seed, "context", *rng_words))
            seen, labels = _seen(subject, model, view, how, places, generator(seed, *rng_words, "places"))
            like = seen[:512].cpu()
            attacker = made(lambda like=like: detector(like), seed, *rng_words).to(subject.device)  # type: ignore[misc]
            _fit(attacker, seen, labels, how, seed, rng_words, advance)
            del seen  # before the next are made
            hits.append(_accuracy(attacker, seen_at_test, answers))
        points.append(
            {"samples": size, "accuracy": float(np.mean(hits)), "sd": float(np.std(hits)), "runs": hits}
        )
    return {
        "view": str(view),
        "points": points,
        "samples_for_90": next((p["samples"] for p in points if p["accuracy"] >= 0.9), None),
        "square": how.side(data.shape),
        "place": how.place,
        "colour": how.colour,
        "test_samples": len(answers),
        "wall_s": round(time.perf_counter() - began, 2),
    }


def _seen(
    subject: Subject,
    model: Tree,
    view: View,
    how: Context,
    places: Ids,
    rng: np.random.Generator,
    test: bool = False,
) -> tuple[Tensor, Tensor]:
    """What is shared of these groups, every second one marked, and which were."""
    which = torch.arange(len(places)) % 2 == 1
    seen: Tensor | None = None
    with torch.no_grad():
        for part in in_pieces(view, subject.dataset.shape, len(places)):
            groups = subject.groups(places[part], test)
            marked = how.marked(subject, groups, which[part].to(groups.device), rng)
            shown = view.show(subject.net, model, marked).float()
            if seen is None:  # in its place at once: features of 10,000 samples are not to be held twice
                seen = shown.new_empty(len(places), *shown.shape[1:])
            seen[part] = shown
    assert seen is not None
    return seen, which.to(subject.device).float()


def _fit(
    attacker: torch.nn.Module,
    seen: Tensor,
    labels: Tensor,
    how: Context,
    seed: int,
    words: tuple[int | str, ...],
    advance: Callable[[int], None],
) -> None:
    rule = torch.optim.Adam(attacker.parameters(), how.lr)
    size = min(how.batch, len(labels))
    per_pass = max(1, len(labels) // size)
    order = np.zeros(0, np.int64)
    for step in range(how.steps):
        if step % per_pass == 0:
            order = generator(seed, "context", "order", *words, step).permutation(len(labels))
        at = torch.from_numpy(order[step % per_pass * size :][:size]).to(seen.device)
        loss = F.binary_cross_entropy_with_logits(attacker(seen[at]).squeeze(1), labels[at])
        rule.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        rule.step()
    advance(how.steps)


def _accuracy(attacker: torch.nn.Module, seen: Tensor, labels: Tensor) -> float:
    with torch.no_grad():
        guesses = torch.cat([attacker(seen[at : at + 500]).squeeze(1) for at in range(0, len(seen), 500)]) > 0
    return float((guesses == (labels > 0.5)).double().mean())
