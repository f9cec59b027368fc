"""A verb that gives the wrong thing is told by name, and so are methods and questions that nothing calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch

from unskew.core.slots import Advance, Aggregate, Exchange, Objective, Part, Upload
from unskew.core.types import Tree
from unskew.testing.checks import check_part


def zeros(part: Part, net: Any) -> Tree:
    return {k: torch.zeros_like(net.initial[k]) for k in net.trainable}


def made(base: type[Part], **verbs: Any) -> type[Part]:
    """A part of these verbs and no others."""
    words = {"name": "mine", "paper": "", "__doc__": "Breaks a rule.", **verbs}
    kinds = dict.fromkeys(("name", "paper", *verbs), ClassVar[Any])
    made = type("Mine", (base,), {**words, "__annotations__": kinds, "__module__": __name__})
    return dataclass(frozen=True)(made)


def in_place(memory: Tree) -> Tree:
    for value in memory.values():
        value.add_(1)
    return memory


WRONG: list[tuple[type[Part], dict[str, Callable[..., Any]], str]] = [
    (
        Objective,
        {"penalty": lambda part, step: None},
        "penalty of mine must give one number for the whole batch",
    ),
    (
        Objective,
        {"penalty": lambda part, step: step.out.logits.square().mean(1)},
        "penalty of mine must give one number for the whole batch, such as step.batch.mean(one value a sample); it "
        "gives a tensor of shape (",
    ),
    (
        Objective,
        {"logits": lambda part, logits, step: logits[:, :1]},
        "logits of mine must give logits of the shape",
    ),
    (
        Objective,
        {"inputs": lambda part, batch, step: batch.x},
        "inputs of mine must give a Batch, such as replace(",
    ),
    (
        Objective,
        {"correct": lambda part, grads, step: {}},
        "correct of mine must give a gradient for each weight",
    ),
    (
        Objective,
        {"init_server": lambda part, net: {"rounds": 3}},
        "init_server of mine must give what the part rem",
    ),
    (
        Exchange,
        {"report": lambda part, visit: {}},
        "report of mine must give two things, what is uploaded and what the part remembers, each a dictionary of "
        "tensors by name, and what it remembers in the types and shapes of before; it gives a dictionary of nothing",
    ),
    (Exchange, {"report": lambda part, visit: ({"steps": 2.0}, {})}, "report of mine must give two things"),
    (
        Exchange,
        {
            "init_client": lambda part, net, size: {"last": torch.zeros(())},
            "report": lambda part, visit: ({}, {"lost": torch.zeros(())}),
        },
        "report of mine must give two things",
    ),
    (
        Exchange,
        {"hand_out": lambda part, memory, t: {"mu": 0.1}},
        "hand_out of mine must give what is sent along",
    ),
    (
        Exchange,
        {"absorb": lambda part, memory, update, clients: None},
        "absorb of mine must give what the part",
    ),
    (
        Exchange,
        {"init_server": zeros, "absorb": lambda part, memory, update, clients: in_place(memory)},
        "mine writes into what it was handed",
    ),
    (
        Exchange,
        {"adjust": lambda part, change, memory: None},
        "adjust of mine must give the change of every weight",
    ),
    (
        Exchange,
        {"adjust": lambda part, change, memory: in_place(change)},
        "mine writes into what it was handed",
    ),
    (
        Aggregate,
        {"weights": lambda part, update: [1.0]},
        "weights of mine must give a tensor of one number an update",
    ),
    (
        Aggregate,
        {"merge": lambda part, params, *rest: params},
        "merge of mine must give two things, the change and",
    ),
    (
        Advance,
        {"step": lambda part, params, change, memory: params},
        "step of mine must give two things, the model",
    ),
    (
        Upload,
        {"encode": lambda part, change, memory, rng: change},
        "encode of mine must give two things, the messa",
    ),
    (
        Upload,
        {"encode": lambda part, change, memory, rng: (change, memory), "size": lambda part, message: -1},
        "size of mine must give a number of bytes; it gives -1",
    ),
]


@pytest.mark.parametrize(
    ("base", "verbs", "sentence"), WRONG, ids=lambda v: "-".join(v) if isinstance(v, dict) else ""
)
def test_a_verb_that_gives_the_wrong_thing_is_named(
    base: type[Part], verbs: dict[str, Callable[..., Any]], sentence: str
) -> None:
    """With what it must give and what it gives, where an error far away would have said neither."""
    with pytest.raises(AssertionError) as problem:
        check_part(made(base, **verbs), only=["verbs"])
    assert str(problem.value).startswith(sentence)


@pytest.mark.parametrize(
    ("base", "words", "sentence"),
    [
        (
            Objective,
            {"penality": zeros},
            "mine has a method penality, which nothing calls; did you mean penalty?",
        ),
        (
            Exchange,
            {"handout": zeros},
            "mine has a method handout, which nothing calls; did you mean hand_out?",
        ),
        (Exchange, {"questions": ("mean",)}, "mine names a question that it has no method for: mean"),
        (Objective, {"needs": ("features",)}, "needs of mine must be a Needs(...), not ('features',)"),
        (Objective, {"name": "fedprox"}, "fedprox is a part of unskew's own; give yours another name"),
    ],
)
def test_what_nothing_would_call_is_told(base: type[Part], words: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AssertionError) as problem:
        check_part(made(base, **words), only=["described"])
    assert str(problem.value) == sentence


def test_a_helper_may_be_called_like_a_verb_that_is_there() -> None:
    """``penalties`` beside ``penalty`` is nobody's slip."""
    check_part(made(Objective, penalty=lambda part, step: 0.0, penalties=zeros), only=["described"])


def test_what_is_asked_before_round_0_must_be_declared_too() -> None:
    """The page's own example, without its `discloses`."""

    def begin(part: Any, net: Any, roster: Any, query: Any, seed: int) -> Tree:
        told = query(part, "mean_sample", roster.ids[roster.sizes > 0])
        return {"mean": torch.stack([answer["mean"] for answer in told]).mean(0)}

    kind = made(
        Exchange,
        questions=("mean_sample",),
        begin=begin,
        mean_sample=lambda part, client: {"mean": client.samples().mean(0)},
        hand_out=lambda part, memory, t: memory,
        inputs=lambda part, batch, step: replace(batch, x=batch.x - step.shared["mean"]),
    )
    with pytest.raises(AssertionError, match=r"^mine must say in `discloses` what leaves a client$"):
        check_part(kind, only=["costs"])
    kind.discloses = ("the mean of its samples",)
    check_part(kind, only=["described", "verbs", "costs"])
