"""What a part's verbs give, looked at where they give it: a wrong value fails far from there, and names nobody."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from unskew.core.method import Method
from unskew.core.slots import Advance, Aggregate, Batch, Calibrate, Exchange, Objective, Part, Upload
from unskew.core.types import clone
from unskew.testing.plays import Subject, must, must_be_untouched, play
from unskew.testing.toy_federation import RefusedSetup


@dataclass(frozen=True)
class Rule:
    """What a verb must give, in words and as a test that sees what it was handed, too."""

    words: str
    fits: Callable[[Any, Mapping[str, Any]], bool]
    writes_nothing: bool = False


def is_tree(value: Any) -> bool:
    """Tensors by name, or such dictionaries by name."""
    return isinstance(value, dict) and all(
        isinstance(name, str) and (isinstance(one, Tensor) or is_tree(one)) for name, one in value.items()
    )


def _are_trees(value: Any, given: Mapping[str, Any]) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(map(is_tree, value))


def _has_names_of(handed: str) -> Callable[[Any, Mapping[str, Any]], bool]:
    def fits(value: Any, given: Mapping[str, Any]) -> bool:
        wanted = {k: v.shape for k, v in given[handed].items()}
        return is_tree(value) and {k: getattr(v, "shape", None) for k, v in value.items()} == wanted

    return fits


def _is_report(value: Any, given: Mapping[str, Any]) -> bool:
    return _are_trees(value, given) and _form(value[1]) == _form(given["visit"].mine)


def _form(tree: Mapping[str, Any]) -> Any:
    return {k: _form(v) if isinstance(v, dict) else (v.dtype, v.shape) for k, v in tree.items()}


MEMORY = Rule(
    "what the part remembers: a dictionary of tensors by name, or of such dictionaries",
    lambda value, given: is_tree(value),
    writes_nothing=True,
)
PAIR = "two things, {} and what the part remembers, each a dictionary of tensors by name"

RULES: dict[tuple[type[Part], str], Rule] = {
    (Part, "init_server"): MEMORY,
    (Objective, "inputs"): Rule(
        "a Batch, such as replace(batch, x=...)", lambda value, given: isinstance(value, Batch)
    ),
    (Objective, "logits"): Rule(
        "logits of the shape that it was handed",
        lambda value, given: isinstance(value, Tensor) and value.shape == given["logits"].shape,
    ),
    (Objective, "penalty"): Rule(
        "one number for the whole batch, such as step.batch.mean(one value a sample)",
        lambda value, given: (
            value.ndim == 0 if isinstance(value, Tensor) else isinstance(value, (int, float))
        ),
    ),
    (Objective, "correct"): Rule(
        "a gradient for each weight that it was handed one of", _has_names_of("grads")
    ),
    (Exchange, "begin"): MEMORY,
    (Exchange, "init_client"): MEMORY,
    (Exchange, "hand_out"): Rule(
        "what is sent along with the model: a dictionary of tensors by name",
        lambda value, given: is_tree(value),
        writes_nothing=True,
    ),
    (Exchange, "report"): Rule(
        PAIR.format("what is uploaded") + ", and what it remembers in the types and shapes of before",
        _is_report,
    ),
    (Exchange, "absorb"): MEMORY,
    (Exchange, "adjust"): Rule(
        "the change of every weight that it was handed one of", _has_names_of("change"), writes_nothing=True
    ),
    (Exchange, "renew"): MEMORY,
    (Aggregate, "weights"): Rule(
        "a tensor of one number an update",
        lambda value, given: isinstance(value, Tensor) and value.shape == (len(given["update"]),),
    ),
    (Aggregate, "merge"): Rule(PAIR.format("the change"), _are_trees, writes_nothing=True),
    (Advance, "step"): Rule(PAIR.format("the model"), _are_trees),
    (Calibrate, "calibrate"): Rule("the model that it was handed, calibrated", _has_names_of("params")),
    (Upload, "init_client"): MEMORY,
    (Upload, "encode"): Rule(PAIR.format("the message"), _are_trees),
    (Upload, "decode"): Rule(
        "the change: a dictionary of tensors by name", lambda value, given: is_tree(value)
    ),
    (Upload, "size"): Rule("a number of bytes", lambda value, given: isinstance(value, int) and value >= 0),
}
ANSWER = Rule("an answer: a dictionary of tensors by name", lambda value, given: is_tree(value))


def check_verbs(part: Subject) -> None:
    """Every verb gives what it must, and the server's write into nothing that they were handed."""
    if isinstance(part, Method):
        return
    with contextlib.suppress(RefusedSetup):  # which other checks look at
        play(_watched(part), rounds=2)


def _watched(part: Part) -> Part:
    """The same part, each verb of its own looked at."""
    kind = type(part)
    verbs: dict[str, Any] = {
        verb: _looked_at(part.name, verb, getattr(kind, verb), rule, inspect.signature(getattr(base, verb)))
        for (base, verb), rule in RULES.items()
        if issubclass(kind, base) and getattr(kind, verb) is not getattr(base, verb)
    }
    verbs |= {asked: _looked_at(part.name, asked, getattr(kind, asked), ANSWER) for asked in kind.questions}
    twin: Part = object.__new__(type(kind.__name__, (kind,), {**verbs, "__module__": kind.__module__}))
    twin.__dict__.update(vars(part))
    return twin


def _looked_at(
    name: str, verb: str, given_by: Callable[..., Any], rule: Rule, takes: inspect.Signature | None = None
) -> Callable[..., Any]:
    """The verb, and a look at what it gives; what it was handed goes by the slot's own names."""

    @functools.wraps(given_by)
    def look(self: Part, *args: Any, **kwargs: Any) -> Any:
        trees = [value for value in (*args, *kwargs.values()) if rule.writes_nothing and is_tree(value)]
        before = [clone(tree) for tree in trees]
        value = given_by(self, *args, **kwargs)
        given = dict(takes.bind(self, *args, **kwargs).arguments) if takes is not None else {}
        must(rule.fits(value, given), f"{verb} of {name} must give {rule.words}; it gives {_in_words(value)}")
        must_be_untouched(self, before, trees)
        return value

    return look


def _in_words(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, dict):
        return "a dictionary of " + (
            ", ".join(f"{k} ({_in_words(v)})" for k, v in list(value.items())[:4]) or "nothing"
        )
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of " + (", ".join(map(_in_words, value[:4])) or "nothing")
    if isinstance(value, (int, float)):
        return repr(value)
    return "nothing" if value is None else f"a {type(value).__name__}"
