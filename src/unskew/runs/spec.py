"""What a run is: every setting in one flat record, the same in Python, in TOML and as flags."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unskew.errors import InputError, unknown
from unskew.expression import Call, argument, path_and_options
from unskew.readings import check_target, check_twice
from unskew.runs.describe import description, names, setting
from unskew.runs.stop_rule import read_budget, read_stop

SHARE = "is a share of clients from 0 to 1"


class Unsaid(str):
    """A default that gives way to what other settings say; written out by a user, the same words are plain text."""


class Unnamed(str):
    """The data set that a simulation takes where nobody names one; real sites are judged by one that is named."""


class UnsaidNumber(int):
    """A default that gives way to the data; written out by a user, the same number is a plain one."""


@dataclass(frozen=True)
class Spec:
    """A run's settings. A field's help is its flag's help."""

    dataset: str = setting(
        Unnamed("digits"),
        "reading",
        "A data set's name, or a path to own data (.npz, .csv, .parquet, a folder).",
        is_file=True,
        renewable=True,
    )
    data_folder: str | None = setting(
        None,
        "reading",
        "Where published files lie; default: UNSKEW_DATA_FOLDER, else the user's cache.",
        changes_numbers=False,
        renewable=True,
    )
    label: str | None = setting(None, "reading", "The label column of an own table.")
    client: str | None = setting(None, "reading", "The client column of an own table.")
    features: tuple[str, ...] = setting(
        (), "reading", "The columns of an own table to learn from; default: all that fit."
    )
    drop_columns: tuple[str, ...] = setting(
        (), "reading", "Columns of an own table to leave out; also as --drop COLUMN."
    )
    impute: Literal["median", "most_frequent", "drop"] | None = setting(
        None,
        "reading",
        "Missing values of an own table: median, most_frequent or drop (the row); default: refuse them.",
    )
    fit: Literal["all", "client"] = setting(
        "all",
        "reading",
        "Whose training rows a table's fills and scales are fitted to: all clients', or each client's own.",
        own_problem=False,
    )
    test_column: str | None = setting(
        None, "reading", "The column of an own table that says which rows are to test on: test or train."
    )
    partition: str = setting(
        Unsaid("dirichlet(0.1)"),
        "dealing",
        "How samples are dealt to clients, or a saved partition (.npz); with client = site it is by(site).",
        is_file=True,
        renewable=True,
    )
    by: str | None = setting(
        None, "dealing", "Clients are the values of this column: short for partition = by(COLUMN)."
    )
    clients: int | None = setting(
        None, "dealing", "How many clients; default 100, or what the partition's column holds.", at_least=1
    )
    fraction: float = setting(
        1.0,
        "dealing",
        "The share of the training data to use (SEM's U).",
        above=0,
        at_most=1,
        bounds="is a share of the data above 0 and of at most 1",
    )
    samples_per_client: int | None = setting(
        None, "dealing", "Use this many samples a client on average.", at_least=1
    )
    min_samples: int = setting(1, "dealing", "The fewest samples a client may hold.", at_least=0)
    emd: float | None = setting(None, "dealing", "Solve the partition's own parameters for this EMD.")
    partition_seed: int | None = setting(
        None, "dealing", "A seed for the partition alone; default: the run's seed."
    )
    client_test: float | None = setting(
        None,
        "holding",
        "Hold out this share of every client's samples, to test by on its own (0.2, say).",
        above=0,
        below=1,
        bounds="is a share of every client's samples above 0 and below 1",
    )
    validation: float | None = setting(
        None,
        "holding",
        "Hold out this share of the training data, to choose the best round and settings by.",
        above=0,
        below=1,
        bounds="is a share of the training data above 0 and below 1",
    )
    validation_of: Literal["all", "client"] = setting(
        "all",
        "holding",
        "Whose samples are held out for validation: of all, for the server, or of every client's own.",
    )
    method: str = setting("fedavg", "training", "Parts joined with +, or a preset (see `unskew methods`).")
    method_label: str | None = setting(
        None, "training", "What reports call the method; default: what stands under method.", renewable=True
    )
    model: str = setting("auto", "training", "A model's name (see `unskew models`) or package.module:Class.")
    rounds: int = setting(50, "training", "How many rounds.", at_least=1, renewable=True)
    cohort: int | float = setting(
        UnsaidNumber(10),
        "training",
        "Clients a round: a number, or a share below 1; where nothing is said, of fewer clients all.",
    )
    epochs: float | None = setting(
        None,
        "training",
        "Passes over a client's data a round; fractions allowed; default 1.",
        above=0,
        at_most=10_000,
    )
    steps: int | None = setting(
        None, "training", "Steps a round instead of epochs.", at_least=1, at_most=1_000_000
    )
    batch: int = setting(32, "training", "Samples a step.", at_least=1)
    lr: float = setting(0.01, "training", "Learning rate.", above=0)
    optimizer: Literal["sgd", "adam"] = setting("sgd", "training", "Local optimiser: sgd or adam.")
    momentum: float = setting(0.0, "training", "Momentum of sgd.", at_least=0, below=1)
    nesterov: bool = setting(False, "training", "Nesterov's momentum.")
    weight_decay: float = setting(0.0, "training", "L2 penalty of the local optimiser.", at_least=0)
    decay: str = setting(
        "constant",
        "training",
        "Learning rate over rounds: constant, exponential(0.98), linear(), step(50), milestones([50, 75]).",
    )
    clip: float | None = setting(None, "training", "Largest norm of a step's gradient.", above=0)
    last: Literal["keep", "drop", "wrap"] = setting(
        "keep",
        "training",
        "The last, partial batch: keep, drop or wrap. A client smaller than a batch has it as it is.",
    )
    crop: int = setting(
        0,
        "training",
        "Move every image of a step at random by up to so many pixels, mirrored at its edges.",
        at_least=0,
    )
    flip: bool = setting(False, "training", "Mirror every second image of a step, at random.")
    pixels: Literal["standard", "unit"] = setting(
        "standard",
        "training",
        "What a model sees of 8-bit images: each channel at mean 0 and spread 1, or values from 0 to 1 (unit).",
    )
    batch_norm: Literal["average", "local", "drop"] = setting(
        "average",
        "training",
        "Batch-norm statistics: average them, keep them local, or drop them; a model without any is judged by those of "
        "the samples at hand.",
    )
    network: str | None = setting(
        None, "training", "How clients are linked, such as wireless(snr=10): counts seconds on the air."
    )
    drop: float = setting(
        0.0,
        "training",
        "Share of clients that never answer; a word is a column of an own table to leave out.",
        at_least=0,
        at_most=1,
        bounds=SHARE,
    )
    late: float = setting(
        0.0,
        "training",
        "Share of clients whose update arrives a round late.",
        at_least=0,
        at_most=1,
        bounds=SHARE,
    )
    nan: float = setting(
        0.0, "training", "Share of clients that answer with NaN.", at_least=0, at_most=1, bounds=SHARE
    )
    evaluate: int = setting(1, "training", "Evaluate every so many rounds, and at the end.", at_least=1)
    evaluate_clients: bool = setting(
        False, "watching", "Also judge the global model on every client's own data."
    )
    metrics: tuple[str, ...] = setting(
        (),
        "watching",
        "What is reported; best, target and leaderboards go by the first; default: all, accuracy first "
        "(see `unskew metrics`).",
        renewable=True,
    )
    target: tuple[float, ...] = setting(
        (),
        "watching",
        "Accuracies, or values of the first metric, whose first round is reported.",
        renewable=True,
    )
    stop: str | None = setting(
        None,
        "watching",
        "End the run once this holds, such as 'accuracy > 0.9' or 'loss < 0.3 and round >= 20'.",
        changes_numbers=True,
        renewable=True,
    )
    patience: int | None = setting(
        None,
        "watching",
        "End the run after so many rounds without a better accuracy, or first metric.",
        at_least=1,
        changes_numbers=True,
        renewable=True,
    )
    budget: str | None = setting(
        None,
        "watching",
        "End the run before it goes beyond this: 500MB moved, 10min of rounds, 90s on the air, or several.",
        changes_numbers=True,
        renewable=True,
    )
    measure: tuple[str, ...] = setting((), "watching", "Extra measurements: divergence, gamma, correlation.")
    keep: tuple[int, ...] = setting(
        (),
        "watching",
        "Rounds whose model stays in the folder, for `unskew attack`.",
        at_least=1,
        bounds="names rounds, of which the first is 1",
        renewable=True,
    )
    seed: int = setting(0, "training", "The seed of everything.")
    engine: Literal["auto", "fast", "loop", "ray"] = setting(
        "auto", "training", "Which engine runs the clients; auto is fast, ray is many machines."
    )
    ray: str | None = setting(
        None,
        "watching",
        "Which Ray cluster engine = ray uses: host:port, or auto for the one here; default: one of its own.",
        renewable=True,
    )
    sites: str | None = setting(
        None,
        "training",
        "Real sites to train at: the folder of a federation (see `unskew federation`); the data set is then the "
        "coordinator's own, to judge by.",
        renewable=True,
    )
    deadline: float = setting(
        600.0, "training", "Seconds that a leg waits for a site.", above=0, at_most=86_400, renewable=True
    )
    device: str = setting(
        "auto", "training", "cpu, cuda, cuda:1 or auto: a GPU where there is one.", renewable=True
    )
    workers: int | None = setting(
        None, "watching", "Worker processes on a CPU; default: one a core.", at_least=1, renewable=True
    )
    block: int | None = setting(
        None, "training", "Most clients stacked together; default: by device and model.", at_least=1
    )
    compile: bool = setting(
        False, "training", "Compile the GPU's step: a minute at the start, for long runs."
    )
    precision: Literal["fp32", "tf32", "bf16", "fp64"] = setting(
        "fp32", "training", "Arithmetic of training; tf32 and bf16 are faster on a GPU."
    )
    checkpoint: float = setting(
        5.0, "watching", "Seconds between checkpoints; 0 writes one every round.", at_least=0, renewable=True
    )

    def __post_init__(self) -> None:
        unsaid, unnamed = isinstance(self.partition, Unsaid), isinstance(self.dataset, Unnamed)
        default_cohort = isinstance(self.cohort, UnsaidNumber)
        self._read_spellings()
        self._read_types()
        self._read_rules()
        self._settle_partition(unsaid)
        if unnamed:  # to be read as a plain value took the marks away
            self._set("dataset", Unnamed(self.dataset))
        if default_cohort:
            self._set("cohort", UnsaidNumber(self.cohort))
        self._refuse_what_cannot_be()

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _read_spellings(self) -> None:
        """Other ways to write a value, as the one that is kept: one name for a list of one, a path in full."""
        if isinstance(self.precision, str):
            self._set("precision", PRECISIONS.get(self.precision, self.precision))
        for name in ("features", "drop_columns", "metrics"):
            if isinstance(given := getattr(self, name), str):
                self._set(name, (given,))
        if isinstance(self.metrics, Mapping):
            raise InputError(
                'metrics of a spec are names, such as ["macro_f1"]; give functions to run itself: '
                "unskew.run(spec, metrics={...})"
            )
        if not isinstance(self.dataset, (str, os.PathLike)):
            raise InputError(
                f"dataset of a spec is a data set's name or a path, not a {type(self.dataset).__name__}; give what was "
                "made in Python to run itself: unskew.run(spec, dataset=...)"
            )
        for name in ("dataset", "partition", "data_folder", "sites"):
            self._set(name, anchor_paths(getattr(self, name)))
        if isinstance(self.network, str):
            from unskew.network import network_of  # files that it names become whole paths

            self._set("network", str(network_of(self.network)))

    def _read_types(self) -> None:
        """Every value in the type of its field."""
        for f in dataclasses.fields(self):
            self._set(f.name, argument(getattr(self, f.name), _hint(f.name), f.name))
            if isinstance(value := getattr(self, f.name), float) and not math.isfinite(value):
                raise InputError(f"{f.name} must be a finite number, not {value}")
        for name in ("dataset", "partition", "method", "model"):
            if not getattr(self, name).strip():
                raise InputError(f"{name} is empty; write a name, or leave it out")

    def _read_rules(self) -> None:
        """The rules by which a run may end early: their spaces put right, and read to see that they can be."""
        for name, read in (("stop", read_stop), ("budget", read_budget)):
            if (given := getattr(self, name)) is not None:
                given = " ".join(given.split())
                self._set(name, None if given.lower() in ("", "none") else given)
                if getattr(self, name) is not None:
                    read(given)

    def _refuse_what_cannot_be(self) -> None:
        """Refuse values beyond their bounds, and settings that contradict each other."""
        if self.epochs is not None and self.steps is not None:
            raise InputError("epochs and steps both set the local budget; keep one")
        for f in dataclasses.fields(self):
            description(Spec, f.name).check(f.name, getattr(self, f.name))
        if self.validation_of != "all" and self.validation is None:
            raise InputError(
                "validation_of says whose samples validation holds out; write validation = 0.1 too"
            )
        check_twice(self.metrics)
        for target in self.target:
            check_target(target, self.metrics)
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
        column = self.by or ((self.client or _own_clients(self.dataset)) if unsaid else None)
        if column is not None:
            natural = str(Call("by", (column,)))
            if not unsaid and self.partition != natural:
                raise InputError(
                    f"partition = {self.partition} and by = {column} both say who holds what; keep one"
                )
            self._set("partition", natural)
        elif unsaid:
            self._set("partition", Unsaid(self.partition))
        self._set("by", None)

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

    @property
    def judges_clients(self) -> bool:
        """Whether models are judged on every client's own samples too."""
        return self.evaluate_clients or self.client_test is not None

    def as_dict(self) -> dict[str, Any]:
        """Every setting by name, those at their defaults too."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def changed(self) -> dict[str, Any]:
        """The settings that differ from their defaults: what to write to repeat the run."""
        return {f.name: v for f in dataclasses.fields(self) if (v := getattr(self, f.name)) != f.default}

    def said(self) -> dict[str, Any]:
        """Every setting by name but those that nobody wrote and that give way to others or to the data."""
        return {k: v for k, v in self.as_dict().items() if not isinstance(v, (Unsaid, UnsaidNumber))}

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


MOVED = names(Spec, is_file=True)
"""Files that may lie elsewhere when a run is resumed: what is in them is compared with what it began with."""

FREE = names(Spec, renewable=True)
"""Settings that a resume may be given anew (``unskew.runs.changes``)."""

STOPPING = ("stop", "patience", "budget")
"""Settings that may end a run before its last round."""

PRECISIONS = {"float32": "fp32", "float64": "fp64"}
"""Other names for a precision."""

HINTS = typing.get_type_hints(Spec)


def no_setting(name: str) -> InputError:
    """What is said of a setting that does not exist."""
    if name == "data":  # which of the two, a guess could get wrong
        return InputError(
            "there is no setting 'data'; write dataset for what to train on, data_folder for where published files lie"
        )
    if name == "watch":
        return InputError(
            "watch is no setting: it takes objects, so give it to unskew.run(..., watch=[...]) in Python"
        )
    return unknown("setting", name, HINTS)


def _own_clients(dataset: str) -> str | None:
    """The column that says whose a sample is, of data that lies client by client in a folder."""
    if not os.path.isdir(os.path.expanduser(path_and_options(dataset)[0])):
        return None
    from unskew.data.load import own_clients  # which numpy comes along with

    return own_clients(dataset)


def _hint(name: str) -> Any:
    # while the class is being made its hints cannot be read yet, and nothing is built then
    return HINTS[name]


def toml_value(value: Any) -> str:
    """A value as an experiment file has it; lists stand on one line."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    import tomli_w

    return tomli_w.dumps({"value": value}).removeprefix("value = ").removesuffix("\n")
