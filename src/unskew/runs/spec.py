"""What a run is: every setting in one flat record, the same in Python, in TOML and as flags."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from unskew.errors import InputError, unknown
from unskew.expression import Call, argument, convert, number, path_and_options


def _setting(default: Any, help: str) -> Any:
    return field(default=default, metadata={"help": help})


class Unsaid(str):
    """A default that gives way to what other settings say; written out by a user, the same words are plain text."""


@dataclass(frozen=True)
class Spec:
    """A run's settings. A field's help is its flag's help."""

    dataset: str = _setting(
        "digits", "A data set's name, or a path to own data (.npz, .csv, .parquet, a folder)."
    )
    data_folder: str | None = _setting(
        None, "Where published files lie; default: UNSKEW_DATA_FOLDER, else the user's cache."
    )
    label: str | None = _setting(None, "The label column of an own table.")
    client: str | None = _setting(None, "The client column of an own table.")
    features: tuple[str, ...] = _setting(
        (), "The columns of an own table to learn from; default: all that fit."
    )
    drop_columns: tuple[str, ...] = _setting(
        (), "Columns of an own table to leave out; also as --drop COLUMN."
    )
    impute: Literal["median", "most_frequent", "drop"] | None = _setting(
        None, "Missing values of an own table: median, most_frequent or drop (the row); default: refuse them."
    )
    fit: Literal["all", "client"] = _setting(
        "all",
        "Whose training rows a table's fills and scales are fitted to: all clients', or each client's own.",
    )
    partition: str = _setting(
        Unsaid("dirichlet(0.1)"),
        "How samples are dealt to clients, or a saved partition (.npz); with client = site it is by(site).",
    )
    by: str | None = _setting(
        None, "Clients are the values of this column: short for partition = by(COLUMN)."
    )
    clients: int | None = _setting(
        None, "How many clients; default 100, or what the partition's column holds."
    )
    fraction: float = _setting(1.0, "The share of the training data to use (SEM's U).")
    samples_per_client: int | None = _setting(None, "Use this many samples a client on average.")
    min_samples: int = _setting(1, "The fewest samples a client may hold.")
    emd: float | None = _setting(None, "Solve the partition's own parameters for this EMD.")
    partition_seed: int | None = _setting(None, "A seed for the partition alone; default: the run's seed.")
    method: str = _setting("fedavg", "Parts joined with +, or a preset (see `unskew methods`).")
    method_label: str | None = _setting(
        None, "What reports call the method; default: what stands under method."
    )
    model: str = _setting("auto", "A model's name (see `unskew models`) or package.module:Class.")
    rounds: int = _setting(50, "How many rounds.")
    cohort: int | float = _setting(10, "Clients a round: a number, or a share below 1.")
    epochs: float | None = _setting(
        None, "Passes over a client's data a round; fractions allowed; default 1."
    )
    steps: int | None = _setting(None, "Steps a round instead of epochs.")
    batch: int = _setting(32, "Samples a step.")
    lr: float = _setting(0.01, "Learning rate.")
    optimizer: Literal["sgd", "adam"] = _setting("sgd", "Local optimiser: sgd or adam.")
    momentum: float = _setting(0.0, "Momentum of sgd.")
    nesterov: bool = _setting(False, "Nesterov's momentum.")
    weight_decay: float = _setting(0.0, "L2 penalty of the local optimiser.")
    decay: str = _setting(
        "constant", "Learning rate over rounds: constant, exponential(0.98), linear(), step(50)."
    )
    clip: float | None = _setting(None, "Largest norm of a step's gradient.")
    last: Literal["keep", "drop", "wrap"] = _setting(
        "keep", "The last, partial batch: keep, drop or wrap. A client smaller than a batch has it as it is."
    )
    batch_norm: Literal["average", "local", "drop"] = _setting(
        "average",
        "Batch-norm statistics: average them, keep them local, or drop them; a model without any is judged by those of "
        "the samples at hand.",
    )
    network: str | None = _setting(
        None, "How clients are linked, such as wireless(snr=10): counts seconds on the air."
    )
    drop: float = _setting(
        0.0, "Share of clients that never answer; a word is a column of an own table to leave out."
    )
    late: float = _setting(0.0, "Share of clients whose update arrives a round late.")
    nan: float = _setting(0.0, "Share of clients that answer with NaN.")
    evaluate: int = _setting(1, "Evaluate every so many rounds, and at the end.")
    evaluate_clients: bool = _setting(False, "Also judge the global model on every client's own data.")
    target: tuple[float, ...] = _setting((), "Accuracies whose first round is reported.")
    measure: tuple[str, ...] = _setting((), "Extra measurements: divergence, gamma, correlation.")
    keep: tuple[int, ...] = _setting((), "Rounds whose model stays in the folder, for `unskew attack`.")
    seed: int = _setting(0, "The seed of everything.")
    engine: Literal["auto", "fast", "loop"] = _setting("auto", "Which engine runs the clients; auto is fast.")
    device: str = _setting("auto", "cpu, cuda, cuda:1 or auto: a GPU where there is one.")
    workers: int | None = _setting(None, "Worker processes on a CPU; default: one a core.")
    block: int | None = _setting(None, "Most clients stacked together; default: by device and model.")
    compile: bool = _setting(False, "Compile the GPU's step: a minute at the start, for long runs.")
    precision: Literal["fp32", "tf32", "bf16", "fp64"] = _setting(
        "fp32", "Arithmetic of training; tf32 and bf16 are faster on a GPU."
    )
    checkpoint: float = _setting(5.0, "Seconds between checkpoints; 0 writes one every round.")

    def __post_init__(self) -> None:
        if isinstance(self.precision, str):
            object.__setattr__(self, "precision", PRECISIONS.get(self.precision, self.precision))
        for name in ("features", "drop_columns"):
            if isinstance(given := getattr(self, name), str):
                object.__setattr__(self, name, (given,))
        unsaid = isinstance(self.partition, Unsaid)
        for name in ("dataset", "partition", "data_folder"):
            object.__setattr__(self, name, anchor_paths(getattr(self, name)))
        if isinstance(self.network, str):
            from unskew.network import network_of  # files that it names become whole paths

            object.__setattr__(self, "network", str(network_of(self.network)))
        for f in dataclasses.fields(self):
            object.__setattr__(self, f.name, argument(getattr(self, f.name), _hint(f.name), f.name))
            if isinstance(value := getattr(self, f.name), float) and not math.isfinite(value):
                raise InputError(f"{f.name} must be a finite number, not {value}")
        self._settle_partition(unsaid)
        if self.epochs is not None and self.steps is not None:
            raise InputError("epochs and steps both set the local budget; keep one")
        self._at_least("rounds clients steps batch evaluate samples_per_client workers block", 1)
        self._at_least("min_samples momentum weight_decay checkpoint", 0)
        self._above("lr epochs clip fraction", 0)
        self._at_most("epochs", 10_000)
        self._at_most("steps", 1_000_000)
        if self.momentum >= 1:
            raise InputError(
                f"momentum must be below 1, not {self.momentum}, or every step is longer than the last"
            )
        if self.fraction > 1:
            raise InputError(f"fraction is a share of the data of at most 1, not {self.fraction}")
        if strange := [target for target in self.target if not 0 <= target <= 1]:
            raise InputError(f"target is an accuracy from 0 to 1, such as 0.9, not {strange[0]:g}")
        if early := [r for r in self.keep if r < 1]:
            raise InputError(f"keep names rounds, of which the first is 1, not {early[0]}")
        if self.method_label is not None and (not self.method_label.strip() or "\n" in self.method_label):
            raise InputError(f'method_label is a short text such as "ours", not {self.method_label!r}')
        if self.nesterov and not self.momentum:
            raise InputError("nesterov needs momentum above 0, for example momentum = 0.9")
        if self.optimizer == "adam" and self.momentum:
            raise InputError("momentum belongs to sgd; adam has its own")
        if self.cohort <= 0 or (isinstance(self.cohort, float) and self.cohort >= 1 and self.cohort % 1):
            raise InputError(f"cohort must be a number of clients or a share below 1, not {self.cohort}")

    def _settle_partition(self, unsaid: bool) -> None:
        """One setting says who holds what in the end: the partition, which ``by`` and ``client`` may stand for."""
        column = self.by or (self.client if unsaid else None)
        if column is not None:
            natural = str(Call("by", (column,)))
            if not unsaid and self.partition != natural:
                raise InputError(
                    f"partition = {self.partition} and by = {column} both say who holds what; keep one"
                )
            object.__setattr__(self, "partition", natural)
        elif unsaid:
            object.__setattr__(self, "partition", Unsaid(self.partition))
        object.__setattr__(self, "by", None)

    def _at_least(self, names: str, least: float) -> None:
        for name in names.split():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} must be at least {least}, not {value}")

    def _at_most(self, names: str, most: float) -> None:
        for name in names.split():
            value = getattr(self, name)
            if value is not None and value > most:
                raise InputError(f"{name} must be at most {most:g}, not {value:g}")

    def _above(self, names: str, bound: float) -> None:
        for name in names.split():
            value = getattr(self, name)
            if value is not None and not value > bound:
                raise InputError(f"{name} must be above {bound}, not {value}")

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str = "") -> Spec:
        """A spec from plain values; ``where`` names their source in complaints."""
        known = {f.name for f in dataclasses.fields(cls)}
        values = sorted_drop(values)
        for name in values:
            if name not in known:
                problem = no_setting(name)
                raise InputError(f"{where}: {problem}" if where else str(problem))
        try:
            return cls(**values)
        except InputError as problem:
            raise InputError(f"{where}: {problem}" if where else str(problem)) from None

    def as_dict(self) -> dict[str, Any]:
        """Every setting by name, those at their defaults too."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults: what to write to repeat the run."""
        return {f.name: v for f in dataclasses.fields(self) if (v := getattr(self, f.name)) != f.default}

    def toml(self) -> str:
        """The settings that differ from their defaults as an experiment file has them."""
        return "".join(f"{name} = {toml_value(value)}\n" for name, value in self.changed().items())


def sorted_drop(values: Mapping[str, Any]) -> dict[str, Any]:
    """``drop`` is a share of clients where it is a number; words there are columns of a table, ``drop_columns``."""
    found = dict(values)
    given = found.get("drop")
    words = [given] if isinstance(given, str) else given
    if isinstance(words, (list, tuple)) and words and all(isinstance(word, str) for word in words):
        already = found.get("drop_columns") or ()
        found["drop_columns"] = (*((already,) if isinstance(already, str) else already), *words)
        del found["drop"]
    return found


def anchor_paths(text: Any) -> Any:
    """A file or folder that is there by its whole path, so that a run can be resumed from anywhere.

    What the registries name stays a name, also beside a folder of that name. Names are written in one way,
    without spaces around them or before the bracket.
    """
    text = os.fspath(text) if isinstance(text, os.PathLike) else text
    if not isinstance(text, str) or not text.strip():
        return text
    path, options = path_and_options(text)
    if not os.path.exists(path):  # which, unlike Path's, says no to what is too long for a path
        return re.sub(r"^(\w+)\s+\(", r"\1(", text.strip())
    if not re.search(r"[./]", path):
        from unskew.data.partition import FAMILIES, PRESETS
        from unskew.data.sources import SOURCES

        if path in {*SOURCES, *FAMILIES, *PRESETS}:
            return text.strip()
    return str(Path(path).resolve()) + options


MOVED = ("dataset", "partition")
"""Files that may lie elsewhere when a run is resumed: what is in them is compared with what it began with."""

FREE = ("rounds", "workers", "device", "checkpoint", "data_folder", *MOVED, "target", "keep", "method_label")
"""Settings that a resume may be given anew (``unskew.runs.changes``)."""

PRECISIONS = {"float32": "fp32", "float64": "fp64"}
"""Other names for a precision."""

HINTS = typing.get_type_hints(Spec)


def no_setting(name: str) -> InputError:
    """What is said of a setting that does not exist."""
    if name == "data":  # which of the two, a guess could get wrong
        return InputError(
            "there is no setting 'data'; write dataset for what to train on, data_folder for where published files lie"
        )
    return unknown("setting", name, HINTS)


def _hint(name: str) -> Any:
    # while the class is being made its hints cannot be read yet, and nothing is built then
    return HINTS[name]


def toml_value(value: Any) -> str:
    """A value as an experiment file has it; lists stand on one line."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    import tomli_w

    return tomli_w.dumps({"value": value}).removeprefix("value = ").removesuffix("\n")


def read_toml(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(settings, sweep table) of an experiment file; complaints name the file and the line."""
    if path.suffix.lower() in (".csv", ".tsv", ".parquet", ".npz"):
        raise InputError(f"{path} holds data, and an experiment file ends in .toml; write --dataset {path}")
    try:
        text = path.read_text("utf-8-sig")  # some editors put a mark before the first line
    except FileNotFoundError:
        raise InputError(f"there is no experiment file {path}") from None
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"cannot read {path}: {problem}") from None
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as problem:  # also of numbers and brackets without end
        raise InputError(f"{path} is not valid TOML: {problem}") from None
    sweep = table.pop("sweep", {})
    if not isinstance(sweep, dict):
        raise InputError(
            f"{path}, line {_line(text, 'sweep')}: sweep must be a table: write [sweep] on its own line"
        )
    table = sorted_drop(table)
    for name, value in {**table, **sweep}.items():
        place = f"{path}, line {_line(text, name)}"
        swept = name in sweep
        if name not in HINTS:
            raise InputError(f"{place}: {no_setting(name)}")
        if swept and name in table:
            raise InputError(f"{place}: {name} is both set and swept; keep one")
        for one in grid_values(name, value, place) if swept else [value]:
            try:
                convert(_plain(one), HINTS[name], name)
            except InputError as problem:
                raise InputError(f"{place}: {problem}") from None
    try:
        Spec.of({k: _plain(v) for k, v in table.items()})
    except InputError as problem:
        culprit = next((n for n in table if re.search(rf"\b{n}\b", str(problem))), None)
        place = f"{path}, line {_line(text, culprit)}" if culprit else str(path)
        raise InputError(f"{place}: {problem}") from None
    return {k: _plain(v) for k, v in table.items()}, sweep


MOST_CELLS = 100_000
"""Runs of one sweep."""


def grid_values(name: str, value: Any, where: str) -> list[Any]:
    """The values of a swept setting: a list, or for whole numbers a range such as "0-4"."""
    if (
        isinstance(value, str)
        and (match := re.fullmatch(r"(\d+)-(\d+)", value))
        and int in _options(HINTS[name])
    ):
        first, last = (int(number(word, f"in {value!r}")) for word in match.groups())
        if last < first:
            raise InputError(f"{where}: the range {value!r} runs backwards; write {last}-{first}")
        if last - first >= MOST_CELLS:
            raise InputError(f"{where}: {value!r} are more than {MOST_CELLS:,} values; sweep fewer")
        return list(range(first, last + 1))
    if not isinstance(value, list) or not value:
        raise InputError(
            f'{where}: a swept setting needs a list of values, or a range like "0-4" for whole numbers'
        )
    return value


def _options(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _line(text: str, name: str | None) -> int:
    for at, line in enumerate(text.splitlines(), 1):
        if name is not None and re.match(rf"\s*\[?\s*\"?{re.escape(name)}\"?\s*[\]=]", line):
            return at
    return 1


def setting_flags(settings: Mapping[str, Any]) -> list[str]:
    """The command-line flags of these settings."""
    words: list[str] = []
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, tuple):
            words += [w for v in value for w in (flag, str(v))]
        else:
            words += [flag, str(value)]
    return words
