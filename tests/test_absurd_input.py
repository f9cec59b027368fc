"""Absurd numbers, endless words and odd letters: each is told in one line, before anything is allocated."""

from __future__ import annotations

import dataclasses
import random
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar

import numpy as np
import pytest

from unskew.cli import main
from unskew.core.decay import decay
from unskew.core.method import Method
from unskew.core.views import view
from unskew.data.partition import FAMILIES, partition
from unskew.errors import InputError, one_line
from unskew.expression import AtMost, build, parse
from unskew.machine.memory import memory, memory_sentence, refuse_larger
from unskew.models import MODELS
from unskew.models import build as build_model
from unskew.network import network_of
from unskew.parts import PARTS
from unskew.parts.schedule.sem import SEM
from unskew.runs.spec import Spec

VALUES = (
    *("0", "-1", "0.5", "1e6", "1e9", "1e12", "1e15", "1e16", "1e18", "1e30", "1e300", "-1e300", "1e-300"),
    *("1e999", str(10**30), "9" * 5000, "true", "none", "nan", "inf", '""', '"a\nb"', '"\0"', "x" * 3000),
    *("[]", "[1]", "[-1]", "[1e30]", "[1e9, 1e9]", "(", ")", "[[[[1]]]]", "'", '"', "(((('"),
)
"""What is written for every hyper-parameter in turn."""

PATIENCE = 20
"""Seconds after which something counts as hung, on a machine that has other things to do."""


class HungError(BaseException):
    """Nothing that an ``except Exception`` would catch."""


@contextmanager
def patience() -> Iterator[None]:
    def late(number: int, frame: Any) -> None:
        raise HungError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def told_or_fine(what: str, act: Callable[[], Any]) -> None:
    """Either it works, or it is one InputError of one line."""
    try:
        with patience(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            act()
    except InputError as problem:
        said = str(problem)
        assert said.isprintable(), (what, said)
        assert len(said) < 1300, (what, len(said))
    except BaseException as problem:
        pytest.fail(f"{what[:200]}: {type(problem).__name__}: {problem}")


def written(known: dict[str, Any], needed: dict[str, str]) -> Iterator[str]:
    """Every absurd value for every field of every class."""
    for name, cls in known.items():
        fields = [f for f in dataclasses.fields(cls) if f.init]
        required = {f.name: needed.get(f.name, "2") for f in fields if f.default is dataclasses.MISSING}
        for field in fields:
            for value in VALUES:
                kwargs = required | {field.name: value}
                yield f"{name}({', '.join(f'{k}={v}' for k, v in kwargs.items())})"


def test_no_part_takes_an_absurd_number() -> None:
    """Whatever is written for whatever hyper-parameter."""
    for text in written(PARTS, {"layer": "dense1"}):
        told_or_fine(text, lambda text=text: Method.parse(text))


def test_no_partition_hangs_on_an_absurd_number() -> None:
    """Families deal 300 labels to five clients, or say why they cannot."""
    labels = np.arange(300) % 6
    for text in written(FAMILIES, {"first": "iid", "second": "iid", "column": "a"}):
        told_or_fine(text, lambda text=text: partition(labels, text, 5))


@pytest.mark.parametrize("name", ["clients", "seed", "fraction", "samples_per_client", "min_samples", "emd"])
def test_no_argument_of_a_partition_is_absurd(name: str) -> None:
    for value in (0, -1, 1e300, 10**30, 10**9, float("nan"), float("inf"), True, "", "a\nb", [1], None):
        arguments: dict[str, Any] = {"clients": 5, "seed": 0, "min_samples": 0} | {name: value}
        told_or_fine(f"{name}={value}", lambda given=arguments: partition(np.arange(300) % 6, "iid", **given))


def test_models_are_measured_before_they_are_made() -> None:
    """Their own numbers, the samples' and the classes'."""
    for name, cls in MODELS.items():
        for field in dataclasses.fields(cls):
            for value in ("0", "-1", "1e12", "1e30", "[1e12]", "[1e30, 1]", "[]", "nan"):
                text = f"{name}({field.name}={value})"
                told_or_fine(text, lambda text=text, cls=cls: build_model(text, cls.native, 10))
        for shape, classes in (((10**12,), 10), ((1, 10**5, 10**5), 10), ((3, 32, 32), 10**12), ((4,), 0)):
            if name in ("linear", "mlp", "small_cnn", "resnet9"):
                with pytest.raises(InputError), patience():
                    build_model(name, shape, classes)


def test_other_expressions_take_no_absurd_number() -> None:
    """Learning rates over rounds, networks, and views of an attack."""
    for value in VALUES:
        for text in (
            f"exponential({value})",
            f"linear({value})",
            f"step({value})",
            f"step(2, gamma={value})",
            f"milestones([{value}])",
        ):
            told_or_fine(text, lambda text=text: decay(text))
        for key in ("snr", "bandwidth", "power", "interference", "coherence", "radius", "exponent", "gains"):
            told_or_fine(f"{key}={value}", lambda k=key, v=value: network_of(f"wireless({k}={v})"))
        for text in (f"averages({value})", f"features({value})", f"samples({value})"):
            told_or_fine(text, lambda text=text: view(text))


def test_no_setting_is_absurd() -> None:
    """Every field of a spec, with values of every kind."""
    values = (
        0,
        -1,
        1e300,
        1e30,
        10**30,
        10**5000,
        1e-300,
        float("nan"),
        float("inf"),
        True,
        None,
        "",
        "a\nb",
    )
    for field in dataclasses.fields(Spec):
        for value in (*values, "a\0b", "x" * 3000, 0.5, [1], (10**30,), ("\n",), {"a": 1}, b"x"):
            told_or_fine(f"{field.name}={type(value)!s}", lambda f=field, v=value: Spec.of({f.name: v}))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sem(hops=1e30)", "hops of sem must be at most 1,000, not 1e+30"),
        ("sem(hops=1001)", "hops of sem must be at most 1,000, not 1,001"),
        ("dynamic(beta=1e300)", "beta of dynamic must be at most 1e+15, not 1e+300"),
        ("fedmix(group=1e30)", "group of fedmix must be at most 1e+15, not 1e+30"),
        ("fedgen(rows=1e6)", "rows of fedgen must be at most 65,536, not 1,000,000"),
        ("fedprox(mu=-1e300)", "mu of fedprox must be at least -1e+30, not -1e+300"),
        ("fedprox(mu=" + "9" * 400 + ")", "is too large a number; write one below 1e30"),
    ],
)
def test_the_sentence_says_how_large_it_may_be(text: str, sentence: str) -> None:
    with pytest.raises(InputError) as problem:
        Method.parse(text)
    assert str(problem.value).endswith(sentence)


def test_parts_made_in_python_have_the_same_bounds() -> None:
    """Where no expression was read, the method looks at what it is made of."""
    with pytest.raises(InputError) as problem:
        Method.of(SEM(hops=10**6))
    assert str(problem.value) == "hops of sem must be at most 1,000, not 1,000,000"


def test_a_bound_is_declared_with_its_field() -> None:
    """Alone, among others, and of every item of a list."""

    @dataclasses.dataclass(frozen=True)
    class Own:
        name: ClassVar[str] = "own"
        few: Annotated[int, AtMost(5)] = 1
        maybe: Annotated[float, AtMost(5)] | None = None
        many: Annotated[tuple[int, ...], AtMost(5)] = ()

    Own.__annotations__ = {  # of a class within a function nobody else knows the names
        "name": ClassVar[str],
        "few": Annotated[int, AtMost(5)],
        "maybe": Annotated[float, AtMost(5)] | None,
        "many": Annotated[tuple[int, ...], AtMost(5)],
    }
    assert build("own(5, maybe=5, many=[5, 5])", {"own": Own}, "part") == Own(5, 5.0, (5, 5))
    for text in ("own(6)", "own(maybe=6)", "own(many=[5, 6])"):
        with pytest.raises(InputError, match=r"of own must be at most 5, not 6$"):
            build(text, {"own": Own}, "part")


def test_the_list_of_models_counts_what_it_cannot_make(capsys: pytest.CaptureFixture[str]) -> None:
    """A thousand billion classes: numbers of weights, and a sentence on memory."""
    assert main(["models", "--classes", str(10**12)]) == 0
    said = capsys.readouterr().out
    assert "201,000,000,157,000" in said  # 784 x 200 + 200 + 200 x 10^12 + 10^12
    assert "More than this machine has: linear needs 6.28 PB of memory" in said.replace("6.29", "6.28")


@pytest.mark.parametrize(
    "words",
    [
        ["models", "mlp", "--classes", str(10**12)],
        ["models", "linear", "--shape", "1x100000x100000"],
        ["models", "mlp(hidden=[1e30])"],
        ["models", "mlp(hidden=[100000, 1000000])"],
        ["partition", "digits", "iid", "--clients", str(10**9), "--min-samples", "0"],
        ["partition", "digits", "shards(1e9)", "--clients", "5"],
        ["run", "--epochs", "1e9", "--dry-run"],
        ["run", "--workers", "1000000", "--dry-run"],
        ["attack", "nowhere", "--steps", str(10**12)],
        ["run", "--rounds", "9" * 5000, "--dry-run"],
        ["run", "--method", "dynamic(beta=1e300)", "--dry-run"],
    ],
)
def test_an_absurd_command_line_is_refused_at_once(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    with patience():
        assert main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert "Traceback" not in said
    assert time.monotonic() - began < PATIENCE


# --- expressions


def test_any_scramble_of_signs_is_read_or_refused() -> None:
    """Unbalanced quotes within brackets once were an IndexError."""
    rng = random.Random(0)
    signs = [
        "(",
        ")",
        "[",
        "]",
        ",",
        "=",
        "+",
        "'",
        '"',
        "a",
        "mlp",
        "1",
        "1e9",
        "-",
        ".",
        " ",
        "\n",
        "\0",
        "é",
    ]
    for _ in range(3000):
        text = "".join(rng.choice(signs) for _ in range(rng.randrange(1, 12)))
        told_or_fine(repr(text), lambda text=text: parse(text))
    for text in (
        'a([("',
        "a(['",
        'mixed(iid,[[")',
        "a(" * 5000,
        "[" * 5000,
        "a([" * 2000,
        '"' * 9999,
        "1" * 5000,
    ):
        told_or_fine(repr(text), lambda text=text: parse(text))


# --- sentences


def test_a_sentence_is_one_line_whatever_it_quotes() -> None:
    """Line breaks, nulls, colours and letters that turn the line around are spelled out; words of any script stay."""
    odd = "a\nb\r\tc\0d\x1b[31me\u202ef\ud800 für 世界"
    assert str(InputError(f"no {odd}")) == r"no a\nb\r\tc\x00d\x1b[31me\u202ef\ud800 für 世界"
    long = str(InputError("no " + "x" * 10**6 + "; write y"))
    assert len(long) < 1300
    assert long.startswith("no xxx")
    assert long.endswith("xxx; write y")
    assert one_line("plain") == "plain"


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31m", "[bold]a", r"\[a", "x" * 5000])
def test_an_error_on_the_command_line_is_one_line(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As a method, a data set, a partition, a folder or an option."""
    for words in (
        ["run", "--method", name, "--dry-run"],
        ["diagnose", name],
        ["partition", "digits", name, "--clients", "5"],
        ["resume", name],
        ["report", name],
        ["models", name],
        ["run", name],
        ["run", f"--{name}"],
        ["run", "--rounds", name],
    ):
        assert main(words) == 2, words
        said = capsys.readouterr().err
        assert said.startswith("error: "), words
        assert said.count("\n") == 1, words
        assert len(said) < 1400, words


# --- memory


def test_what_does_not_fit_is_refused_by_how_much_there_is() -> None:
    refuse_larger(memory(), "all of it", "take less")
    with pytest.raises(
        InputError, match=r"^twice that would take .* of memory, and there are .*; take less$"
    ):
        refuse_larger(2 * memory(), "twice that", "take less")


def test_an_allocation_that_failed_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What no estimate foresaw: numpy's and torch's own complaints."""
    for error in (
        MemoryError("Unable to allocate 14.6 TiB for an array"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 400 bytes."),
    ):
        said = memory_sentence(error)
        assert said is not None
        assert said.startswith("this does not fit into memory (it asked for ")
    assert memory_sentence(ValueError("other")) is None

    def fails(*arguments: Any, **options: Any) -> Any:
        raise MemoryError("Unable to allocate 14.6 TiB for an array with shape (2, 3)")

    monkeypatch.setattr("unskew.data.load", fails)
    assert main(["diagnose", "digits"]) == 2
    assert capsys.readouterr().err == (
        "error: this does not fit into memory (it asked for 14.6 TiB at once); take a smaller model, fewer clients "
        "a round or less data\n"
    )
