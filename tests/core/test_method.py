"""Methods: slots, expressions, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from unskew.core.method import Method
from unskew.errors import InputError
from unskew.parts import PARTS, PRESETS, Part
from unskew.parts.aggregate import FedAvg
from unskew.parts.prepare import Pooled
from unskew.parts.schedule import Plain
from unskew.parts.select import Full, Uniform


def test_the_plain_method_is_fedavg() -> None:
    """Uniform selection, plain rounds, the weighted mean; nothing else."""
    method = Method.parse("fedavg")
    assert method == Method() == Method.of()
    assert (method.select, method.schedule, method.aggregate) == (Uniform(), Plain(), FedAvg())
    assert str(method) == "fedavg"
    assert method.discloses == ()


def test_a_sum_fills_the_slots_of_its_parts() -> None:
    method = Method.parse("fedavg(uniform=true)+full")
    assert method == Method.of(FedAvg(uniform=True), Full())
    assert Method.parse(str(method)) == method
    assert Method.parse(method) is method


def test_a_preset_is_the_sum_of_its_parts() -> None:
    method = Method.parse("centralized")
    assert method == Method.parse(PRESETS["centralized"][0]) == Method.of(Pooled(), Full())
    assert method.discloses == ("raw samples to the server (pooled)",)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_reads_back_as_itself(preset: str) -> None:
    method = Method.parse(preset)
    assert Method.parse(str(method)) == method
    assert preset not in PARTS, f"{preset} is a part too"


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("full+uniform", "full and uniform both decide 'select'; keep one"),
        ("daca+fed_data", "daca and fed_data both send clients' samples to others; keep one"),
        ("full+full", "full appears 2 times; keep one"),
        (
            "centralised",
            "there is no method or part 'centralised'; did you mean 'centralized' or 'central_sharing'?",
        ),
        ("fedavg(uniform=2)", "uniform of fedavg must be true or false, not 2"),
        ("fedavg(unifrom=true)", "fedavg has no parameter 'unifrom'; it is fedavg(uniform=false)"),
        ("fedavg+", "'fedavg+' is incomplete: a name is missing"),
        ("fedavg full", "unexpected 'full' in 'fedavg full'; join parts with +"),
        ("", "expected an expression like name(1, key=2), got ''"),
        (
            "centralized(2)",
            "centralized is a preset and takes no values; write its parts: pooled+full",
        ),
    ],
)
def test_bad_expressions_are_refused_in_a_sentence(expression: str, sentence: str) -> None:
    with pytest.raises(InputError) as problem:
        Method.parse(expression)
    assert str(problem.value) == sentence


# --- parts of one's own


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a file that holds a part, and one that is none; it is the current one."""
    (tmp_path / "my_own_part.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from unskew.parts.aggregate import FedAvg\n\n\n"
        "@dataclass(frozen=True)\n"
        "class Mine(FedAvg):\n"
        '    """Averages, by another name."""\n\n'
        '    name: ClassVar[str] = "mine"\n'
        "    twist: float = 1.0\n\n\n"
        "class NoPart:\n    pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["elsewhere", *[p for p in __import__("sys").path if p]])
    yield tmp_path
    __import__("sys").modules.pop("my_own_part", None)


def test_a_part_is_derived_from_its_slots_class() -> None:
    """To name the slot is not enough: nobody could call what such a part lacks."""
    loose = dataclass(frozen=True)(type("Loose", (Part,), {"name": "loose", "slot": "objective"}))
    with pytest.raises(InputError, match="Loose is in no slot: derive it from Objective"):
        Method.of(loose())


@pytest.mark.parametrize("name", ["late", "trained", "divergence", "batch_norm", "own_model", "kept_model"])
def test_no_part_has_a_name_under_which_a_run_itself_remembers_things(name: str) -> None:
    """At the server or at clients: the part's memory would be taken for the run's."""
    taken = type("Taken", (FedAvg,), {"name": name})
    with pytest.raises(InputError, match=f"is named '{name}', which a run cannot use"):
        Method.of(taken())


def test_a_part_of_ones_own_is_found_in_the_current_folder(own_folder: Path) -> None:
    """An installed command does not look there by itself."""
    method = Method.parse("my_own_part:Mine(twist=2)+full")
    assert type(method.aggregate).__name__ == "Mine"
    assert str(method) == "full+my_own_part:Mine(twist=2.0)"
    assert Method.parse(str(method)) == method


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        (
            "my_own_part:NoPart",
            "'my_own_part:NoPart' is not a part: derive it from a slot class of unskew.parts",
        ),
        ("my_own_part:Other", "there is no 'Other' in 'my_own_part'; write package.module:Class"),
        (
            "no_such_file:Mine",
            "cannot import 'no_such_file' for the part no_such_file:Mine (ModuleNotFoundError: No module named "
            "'no_such_file'); write package.module:Class, as Python would import it from here",
        ),
    ],
)
def test_what_is_not_a_part_is_refused(own_folder: Path, expression: str, sentence: str) -> None:
    with pytest.raises(InputError) as problem:
        Method.parse(expression)
    assert str(problem.value) == sentence


def test_the_same_thing_is_disclosed_in_the_same_words() -> None:
    """Whoever allows label counts to leave a site writes it once."""
    for text in ("kld", "daca", "ccvr", "fedgen(variant=latent)", "sem(pairing=emd)"):
        (part,) = [p for p in Method.parse(text).parts if p.name == text.partition("(")[0]]
        assert "label counts" in part.discloses


@pytest.mark.parametrize("text", ["fedmix(mix=0)", "fed_data(0)", "central_sharing(0)", "fedbr(mu=0, lam=0)"])
def test_who_shares_nothing_discloses_nothing(text: str) -> None:
    """The neutral setting of a part that shares data is FedAvg in this respect too."""
    assert Method.parse(text).discloses == ()
