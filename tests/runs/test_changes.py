"""What may change between a stop and a resume, and runs that are made longer: to the bits of one planned so."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import numpy as np
import pytest
import torch

from unskew.cli import main
from unskew.core.slots import Play, Schedule
from unskew.core.types import Tree
from unskew.errors import InputError
from unskew.parts.schedule import Plain
from unskew.progress import Silent
from unskew.runs.changes import on_its_device
from unskew.runs.ended import Run
from unskew.runs.result import params_hash
from unskew.runs.running import resume, run
from unskew.runs.settings import Renewed
from unskew.runs.spec import FREE, Spec

COMMON: dict[str, Any] = {
    "clients": 12,
    "cohort": 4,
    "rounds": 3,
    "model": "mlp(hidden=[6])",
    "lr": 0.1,
    "fraction": 0.2,
    "engine": "loop",
}
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "scaffold": {"method": "scaffold+sem", "late": 0.3, "drop": 0.2, "measure": ("divergence",)},
    "phases": {"method": "phase_shift(2)", "checkpoint": 0.0},
    "calibrated": {"method": "ccvr(virtual=5,epochs=1)", "evaluate": 2, "checkpoint": 0.0},
    "seldom": {"method": "feddyn", "evaluate": 2, "momentum": 0.9, "decay": "exponential(0.9)"},
    "generated": {"method": "fedgen(variant=latent,start=4,steps=2)"},
    "sampled": {"method": "kld+oversample", "evaluate_clients": True},
    "alone": {"method": "local_only", "evaluate": 2, "checkpoint": 0.0},
    "shared": {"method": "flea(dense1,share=0.5)+fednova", "lr": 0.01},
}


class Stops(Silent):
    """Ctrl-C once this many rounds are played."""

    def __init__(self, after: int):
        self.after = after

    def advance(self, line: dict[str, Any]) -> None:
        if line["round"] == self.after:
            raise KeyboardInterrupt


def told(one: Run) -> dict[str, Any]:
    """Every number of a run but the time and the way it ran: of its model, its log and its result."""
    assert one.path is not None
    kept = {k: v for k, v in one.result.items() if k not in ("totals", "effective")}
    totals = {k: v for k, v in one.result["totals"].items() if k != "wall_s"}
    lines = [{k: v for k, v in line.items() if k != "wall_s"} for line in one.folder.lines]
    assert len((one.path / "rounds.jsonl").read_text().splitlines()) == len(lines)
    return kept | {"totals": totals, "lines": lines, "params": params_hash(one.state.params)}


def changes(path: Path) -> list[dict[str, Any]]:
    return json.loads((path / "spec.json").read_text()).get("changes", [])  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore:fedgen does nothing before", "ignore:.*share nothing by flea")
@pytest.mark.parametrize("engine", ["loop", "fast"])
@pytest.mark.parametrize("case", METHODS)
def test_a_run_made_longer_has_the_bits_of_one_planned_so(case: str, engine: str, tmp_path: Path) -> None:
    """Three rounds, done, then five in all: model, log and result are those of five planned."""
    settings = COMMON | METHODS[case] | {"engine": engine, "workers": 1}
    run(out=tmp_path / "run", progress=False, **settings)
    longer = resume(tmp_path / "run", progress=False, rounds=5)
    planned = run(out=tmp_path / "planned", progress=False, **settings | {"rounds": 5})
    assert told(longer) == told(planned)
    assert longer.spec == planned.spec
    assert [change["to"] for change in changes(tmp_path / "run")] == [{"rounds": 5}]


@pytest.mark.parametrize("case", ["fedavg", "phases", "seldom"])
@pytest.mark.parametrize(("planned", "stopped", "wanted"), [(6, 2, 4), (6, 4, 4), (3, 2, 5), (5, 3, 3)])
def test_a_stopped_run_may_be_planned_anew(
    case: str, planned: int, stopped: int, wanted: int, tmp_path: Path
) -> None:
    """Longer or shorter, also to where it was stopped."""
    settings = COMMON | METHODS[case]
    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path / "run", progress=Stops(stopped), **settings | {"rounds": planned})
    ended = resume(tmp_path / "run", progress=False, rounds=wanted)
    assert told(ended) == told(run(out=tmp_path / "planned", progress=False, **settings | {"rounds": wanted}))


def test_only_a_round_that_ends_a_run_unlike_others_is_played_again(tmp_path: Path) -> None:
    """Where the last round is like any other, the run goes on behind it."""
    seen: list[int] = []

    class Watch(Silent):
        def advance(self, line: dict[str, Any]) -> None:
            seen.append(line["round"])

    for name in ("fedavg", "phases"):
        run(out=tmp_path / name, progress=False, **COMMON | METHODS[name])
        resume(tmp_path / name, progress=Watch(), rounds=4)
    assert seen == [4, 3, 4]


@dataclass(frozen=True)
class Finale(Schedule):
    """A schedule of one's own whose last round trains nobody."""

    name: ClassVar[str] = "finale"

    def round(self, play: Play, params: Tree, memory: Tree) -> tuple[Tree, Tree]:
        return (params, memory) if play.last else Plain().round(play, params, memory)


def test_a_schedule_of_ones_own_may_mind_the_end(tmp_path: Path) -> None:
    """Nothing is known of it, so its last round is played again."""
    settings = COMMON | {"method": f"{__name__}:Finale", "checkpoint": 0.0}
    run(out=tmp_path / "run", progress=False, **settings)
    longer = resume(tmp_path / "run", progress=False, rounds=4)
    planned = run(out=tmp_path / "planned", progress=False, **settings | {"rounds": 4})
    assert told(longer) == told(planned)


def test_a_longer_run_that_is_stopped_goes_on(tmp_path: Path) -> None:
    """The new plan is in the folder, so the next resume needs no flag; and it can be made longer again."""
    settings = COMMON | METHODS["phases"]
    run(out=tmp_path / "run", progress=False, **settings)
    with pytest.raises(KeyboardInterrupt):
        resume(tmp_path / "run", progress=Stops(4), rounds=5)
    assert resume(tmp_path / "run", progress=False).state.round == 5
    ended = resume(tmp_path / "run", progress=False, rounds=6)
    assert told(ended) == told(run(out=tmp_path / "planned", progress=False, **settings | {"rounds": 6}))
    assert [c["to"]["rounds"] for c in changes(tmp_path / "run")] == [5, 6]


def test_a_killed_change_of_plan_leaves_a_run_of_the_old_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before the new plan is written, the run is one that was stopped before its old end."""
    settings = COMMON | METHODS["phases"]
    before = told(run(out=tmp_path / "run", progress=False, **settings))

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["unskew.runs.running"], "record", killed)
        with pytest.raises(KeyboardInterrupt):
            resume(tmp_path / "run", progress=False, rounds=5)
    assert told(resume(tmp_path / "run", progress=False)) == before


def test_a_decay_over_the_planned_rounds_is_not_made_longer(tmp_path: Path) -> None:
    """linear() falls to its end in the last round that was planned: another plan is another run."""
    run(out=tmp_path / "run", progress=False, **COMMON | {"decay": "linear(0.1)"})
    before = {p: p.read_bytes() for p in (tmp_path / "run").glob("*.json*")}
    with pytest.raises(InputError) as refusal:
        resume(tmp_path / "run", progress=False, rounds=5)
    assert str(refusal.value) == (
        f"decay = linear(0.1) spreads over the 3 rounds that {tmp_path / 'run'} was planned for, and for 5 it would "
        "have begun with other learning rates; start another run"
    )
    assert {p: p.read_bytes() for p in (tmp_path / "run").glob("*.json*")} == before


def test_rounds_that_are_played_stay(tmp_path: Path) -> None:
    run(out=tmp_path / "run", progress=False, **COMMON)
    with pytest.raises(InputError) as refusal:
        resume(tmp_path / "run", progress=False, rounds=2)
    assert str(refusal.value) == (
        f"{tmp_path / 'run'} has played 3 rounds already; write rounds = 3 or more, or start another run"
    )


OTHER: dict[str, Any] = {
    "label": "species",
    "client": "site",
    "features": ("age",),
    "drop_columns": ("age",),
    "impute": "median",
    "fit": "client",
    "clients": 13,
    "fraction": 0.3,
    "samples_per_client": 4,
    "min_samples": 0,
    "emd": 1.0,
    "partition_seed": 5,
    "method": "fedprox",
    "model": "linear",
    "cohort": 5,
    "epochs": 2.0,
    "steps": 3,
    "batch": 8,
    "lr": 0.2,
    "optimizer": "adam",
    "momentum": 0.5,
    "nesterov": True,
    "weight_decay": 0.1,
    "decay": "step(5)",
    "clip": 1.0,
    "last": "drop",
    "batch_norm": "local",
    "network": "wireless(snr=10)",
    "drop": 0.1,
    "late": 0.1,
    "nan": 0.1,
    "evaluate": 2,
    "evaluate_clients": True,
    "measure": ("gamma",),
    "seed": 1,
    "engine": "fast",
    "block": 2,
    "compile": True,
    "precision": "fp64",
    "dataset": "mnist",
    "partition": "iid",
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after its second round of three."""
    folder = tmp_path_factory.mktemp("stopped") / "run"
    with pytest.raises(KeyboardInterrupt):
        run(out=folder, progress=Stops(2), **COMMON)
    return folder


@pytest.mark.parametrize("name", [f.name for f in fields(Spec) if f.name not in FREE or f.name in OTHER])
def test_what_can_change_a_number_is_refused(name: str, stopped: Path) -> None:
    """Every setting there is, but for those that a resume may be given anew; the same value again is no change."""
    if name not in OTHER:
        pytest.skip(f"{name} is newer than this table; it is refused like the others unless it is in FREE")
    before = {p: p.read_bytes() for p in stopped.rglob("*") if p.is_file()}
    value = {name: OTHER[name]} | ({"momentum": 0.9} if name == "nesterov" else {})
    with pytest.raises(InputError, match=r"would change the numbers of|is not what the run began with"):
        resume(stopped, progress=False, **value)
    assert {p: p.read_bytes() for p in stopped.rglob("*") if p.is_file()} == before


def test_the_command_says_so_in_one_sentence(stopped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(stopped), "--lr", "0.5", "--json"]) == 2
    assert capsys.readouterr().err.strip() == (
        f"error: lr = 0.5 would change the numbers of {stopped}, which began with lr = 0.1; start another run for it, "
        "or leave lr out"
    )
    assert main(["resume", str(stopped), "--keep", "1"]) == 2
    assert "keep = 1 comes too late" in capsys.readouterr().err


def test_what_cannot_change_a_number_may_change_and_is_kept(
    stopped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Workers, device, checkpoints, the data's place, targets: the numbers are those of a run never stopped."""
    shutil.copytree(stopped, tmp_path / "run")
    words = [
        "--workers",
        "2",
        "--device",
        "cpu",
        "--checkpoint",
        "0",
        "--data-folder",
        str(tmp_path),
        "--keep",
        "3",
    ]
    assert main(["resume", str(tmp_path / "run"), *words, "--lr", "0.1", "--target", "0.05", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounds_to_target"] == {"0.05": 1}
    ended = resume(tmp_path / "run", progress=False)
    planned = run(out=tmp_path / "planned", progress=False, **COMMON | {"target": (0.05,)})
    assert told(ended) == told(planned)
    assert changes(tmp_path / "run") == [
        {
            "after_round": 2,
            "from": {
                "data_folder": None,
                "target": [],
                "keep": [],
                "device": "auto",
                "workers": None,
                "checkpoint": 5.0,
            },
            "to": {
                "data_folder": str(tmp_path),
                "target": [0.05],
                "keep": [3],
                "device": "cpu",
                "workers": 2,
                "checkpoint": 0.0,
            },
        }
    ]
    assert ended.spec.workers == 2
    assert list((tmp_path / "run").glob("**/*000003*"))


def test_own_data_may_have_moved_but_not_changed(tmp_path: Path) -> None:
    """A file at another place is compared with what the run began with."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 5)).astype("float32"), np.arange(60) % 3
    np.savez(tmp_path / "a.npz", x=x, y=y)
    settings = {"clients": 4, "cohort": 2, "rounds": 2, "model": "linear", "engine": "loop"}
    run(out=tmp_path / "run", progress=False, dataset=str(tmp_path / "a.npz"), **settings)
    (tmp_path / "a.npz").rename(tmp_path / "b.npz")
    with pytest.raises(InputError):
        resume(tmp_path / "run", progress=False, rounds=3)
    assert (
        resume(tmp_path / "run", progress=False, rounds=3, dataset=str(tmp_path / "b.npz")).state.round == 3
    )
    assert resume(tmp_path / "run", progress=False, rounds=4).state.round == 4  # it knows where now
    np.savez(tmp_path / "c.npz", x=x + 1, y=y)
    with pytest.raises(InputError, match="is not what the run began with"):
        resume(tmp_path / "run", progress=False, rounds=5, dataset=str(tmp_path / "c.npz"))


def test_the_keywords_of_resume_are_what_may_change() -> None:
    assert {"dataset", "metrics", *get_type_hints(Renewed)} == set(FREE)


def test_a_new_target_of_a_run_that_is_done_is_looked_up(tmp_path: Path) -> None:
    before = told(run(out=tmp_path / "run", progress=False, **COMMON))
    ended = resume(tmp_path / "run", progress=False, target=(0.01, 1.0))
    assert ended.result["rounds_to_target"] == {"0.01": 1, "1.0": None}
    assert told(ended) | {"rounds_to_target": {}} == before


def test_a_run_stays_on_the_kind_of_device_it_began_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """auto means what it meant; another kind is refused, another GPU is not."""
    path = Path("run")
    assert on_its_device(path, Spec(), "cpu").device == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="run began on a GPU, and this machine has none"):
        on_its_device(path, Spec(), "cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert on_its_device(path, Spec(), "cpu").device == "cpu"
    assert on_its_device(path, Spec(device="cuda:1"), "cuda").device == "cuda:1"
    for device, kind, instead in (("cuda", "cpu", "cpu"), ("cpu", "cuda", "cuda")):
        with pytest.raises(InputError) as refusal:
            on_its_device(path, Spec(device=device), kind)
        assert str(refusal.value).startswith(f"on device = {device} run would end in other bits")
        assert str(refusal.value).endswith(f"write device = {instead}")
