"""Who watches a run: what is told and when, and that nothing a watcher does can change the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import unskew
from unskew.errors import InputError
from unskew.runs.ended import Run
from unskew.runs.result import params_hash
from unskew.runs.running import resume, run
from unskew.runs.spec import Spec
from unskew.runs.watchers import Ended, RoundEnded, Started
from unskew.testing.toy_federation import tiny

SETTINGS: dict[str, Any] = {
    "dataset": tiny(),
    "model": "mlp(hidden=[6])",
    "cohort": 4,
    "rounds": 5,
    "lr": 0.1,
    "batch": 4,
    "evaluate": 2,
    "progress": False,
}


@pytest.fixture(scope="module")
def plain() -> Run:
    """The run that nobody watches."""
    return run(**SETTINGS)


def numbers(one: Run) -> dict[str, Any]:
    """Every number of a run but the time."""
    lines = [{k: v for k, v in line.items() if k != "wall_s"} for line in one.folder.lines]
    return {"lines": lines, "final": one.result["final"], "model": params_hash(one.state.params)}


class Notes:
    """Writes down all that it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def started(self, start: Started) -> None:
        self.heard.append(("started", start.played, start.rounds, len(start.log), start.data["clients"]))

    def round_ended(self, round: RoundEnded) -> None:
        self.heard.append(("round_ended", round.round, round.of))

    def evaluated(self, round: RoundEnded) -> None:
        self.heard.append(("evaluated", round.round, round.line["global_test_accuracy"]))

    def ended(self, end: Ended) -> None:
        self.heard.append(("ended", end.status, end.rounds, end.stopped, end.error))


def test_a_watcher_hears_of_everything_in_order(plain: Run) -> None:
    """The start, every round once it is in the log, those that were judged, and the end."""
    notes = Notes()
    run(watch=[notes], **SETTINGS)
    found = [line.get("global_test_accuracy") for line in plain.folder.lines]
    assert notes.heard == [
        ("started", 0, 5, 0, tiny().clients),
        ("round_ended", 1, 5),
        ("round_ended", 2, 5),
        ("evaluated", 2, found[1]),
        ("round_ended", 3, 5),
        ("round_ended", 4, 5),
        ("evaluated", 4, found[3]),
        ("round_ended", 5, 5),
        ("evaluated", 5, found[4]),
        ("ended", "done", 5, "", ""),
    ]


def test_one_watcher_needs_no_list_and_any_one_method_will_do(plain: Run) -> None:
    """Methods are optional."""

    class Last:
        result: Any = None

        def ended(self, end: Ended) -> None:
            self.result = end.result

    last = Last()
    run(watch=last, **SETTINGS)
    assert last.result["final"] == plain.result["final"]


@pytest.mark.parametrize("verb", ["started", "round_ended", "evaluated", "ended"])
def test_an_error_is_reported_once_and_the_run_goes_on_to_the_same_numbers(verb: str, plain: Run) -> None:
    """The others are told as before; who failed is told nothing more."""
    calls = []

    class Broken:
        pass

    def fail(self: Any, told: Any) -> None:
        calls.append(told)
        raise ValueError("no such luck")

    setattr(Broken, verb, fail)
    notes = Notes()
    with pytest.warns(UserWarning, match="Broken failed in") as warned:
        watched = run(watch=[Broken(), notes], **SETTINGS)
    (said,) = [str(one.message) for one in warned if "watcher" in str(one.message)]
    assert "Broken failed in " + verb in said
    assert "is told nothing more; the run goes on (ValueError: no such luck)" in said
    assert len(calls) == 1
    assert notes.heard[-1][:2] == ("ended", "done")
    assert numbers(watched) == numbers(plain)


def test_a_progress_of_ones_own_that_fails_does_not_end_the_run(plain: Run) -> None:
    """It is a watcher as others are."""

    class Bar:
        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *problem: object) -> None: ...

        def advance(self, line: dict[str, Any]) -> None:
            raise ValueError("no terminal")

    with pytest.warns(UserWarning, match="the watcher progress failed in round_ended"):
        assert numbers(run(**SETTINGS | {"progress": Bar()})) == numbers(plain)


def test_nothing_that_a_watcher_changes_gets_into_the_log(plain: Run, tmp_path: Path) -> None:
    """It is handed copies; the random numbers of torch are not the run's, and a model is a copy."""

    class Vandal:
        def started(self, start: Started) -> None:
            start.data["clients"] = 0  # type: ignore[index]

        def round_ended(self, round: RoundEnded) -> None:
            round.line["bytes"]["up"] = {}
            round.line["round"] = 99  # type: ignore[index]
            torch.manual_seed(0)
            with torch.no_grad():
                for value in round.model().parameters():
                    value.zero_()

        def ended(self, end: Ended) -> None:
            end.result["final"]["accuracy"] = 2.0

    watched = run(watch=[Vandal(), Vandal()], out=tmp_path / "run", **SETTINGS)
    assert numbers(watched) == numbers(plain)
    assert watched.result["data"]["clients"] == tiny().clients
    assert json.loads((tmp_path / "run/rounds.jsonl").read_text().splitlines()[0])["round"] == 1


def test_a_round_hands_out_the_model_as_it_is(plain: Run) -> None:
    """The last round's is the run's."""
    kept = []

    class Keeps:
        def round_ended(self, round: RoundEnded) -> None:
            kept.append(round.model())

    run(watch=[Keeps()], **SETTINGS)
    x = torch.from_numpy(tiny().dataset.x_test)
    assert torch.equal(kept[-1](x), plain.model(x))
    assert not torch.equal(kept[0](x), kept[-1](x))


def test_an_interrupt_in_a_watcher_passes_and_the_end_is_told(plain: Run, tmp_path: Path) -> None:
    """Ctrl-C ends the run, saved, and it goes on to the same numbers; a resume tells what was played before."""

    class Interrupts(Notes):
        def round_ended(self, round: RoundEnded) -> None:
            super().round_ended(round)
            if round.round == 3:
                raise KeyboardInterrupt

    notes, further = Interrupts(), Notes()
    with pytest.raises(KeyboardInterrupt):
        run(watch=[notes], out=tmp_path / "run", **SETTINGS)
    assert notes.heard[-1] == ("ended", "interrupted", 3, "", "")
    ended = resume(tmp_path / "run", dataset=tiny(), progress=False, watch=[further])
    assert further.heard[:2] == [("started", 3, 5, 3, tiny().clients), ("round_ended", 4, 5)]
    assert numbers(ended) == numbers(plain)


def test_a_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its reason."""

    def fail(*given: Any) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("unskew.runs.rounds.summary", fail)
    notes = Notes()
    with pytest.raises(ZeroDivisionError):
        run(watch=[notes], **SETTINGS)
    assert notes.heard[-1] == ("ended", "failed", 5, "", "ZeroDivisionError: by zero")


def test_a_watcher_may_ask_for_the_end(tmp_path: Path) -> None:
    """The run is done, as one planned for so many rounds; it goes on only where rounds are given."""

    class Enough:
        def round_ended(self, round: RoundEnded) -> None:
            if round.round == 3:
                round.stop("seen  enough")

    notes = Notes()
    ended = run(watch=[Enough(), notes], out=tmp_path / "run", **SETTINGS)
    assert ended.result["status"] == "done"
    told = ended.result["stopped"]
    assert told["said"] == "seen enough at round 3 of 5"
    assert told["by"].endswith("Enough")
    assert notes.heard[-1] == ("ended", "done", 3, "seen enough at round 3 of 5", "")
    assert numbers(ended) == numbers(run(**SETTINGS | {"rounds": 3}))
    again = resume(tmp_path / "run", dataset=tiny(), progress=False)
    assert again.state.round == 3
    longer = resume(tmp_path / "run", dataset=tiny(), progress=False, rounds=5)
    assert "stopped" not in longer.result
    assert numbers(longer) == numbers(run(**SETTINGS))


@pytest.mark.parametrize("reason", ["", None, 3])
def test_a_stop_needs_a_reason(reason: Any) -> None:
    """One without is an error of the watcher's."""

    class Mute:
        def round_ended(self, round: RoundEnded) -> None:
            round.stop(reason)

    with pytest.warns(UserWarning, match="stop takes a reason"):
        assert run(watch=[Mute()], **SETTINGS).state.round == 5


@pytest.mark.parametrize(
    ("watch", "said"),
    [
        ([Notes], "watch takes objects, not classes; write Notes() for Notes"),
        (
            [print],
            "print cannot watch a run: it has none of the methods started, round_ended, evaluated, ended",
        ),
        (["log"], "str cannot watch a run"),
    ],
)
def test_what_cannot_watch_is_refused(watch: Any, said: str, tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(InputError) as problem:
        run(watch=watch, out=tmp_path / "run", **SETTINGS)
    assert said in str(problem.value)
    assert not (tmp_path / "run").exists()


def test_a_sweep_says_where_watchers_belong(tmp_path: Path) -> None:
    """Each of its runs has its own, so it takes a function of a cell; an experiment file has none at all."""
    with pytest.raises(
        InputError, match="watch of a sweep is a function that gives a cell its watchers, such as"
    ):
        unskew.sweep({"seed": [0]}, tmp_path, watch=[Notes()])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"watch is no setting: it takes objects, so give it to unskew.run"):
        Spec.of({"watch": [Notes()]})
