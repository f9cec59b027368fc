"""Runs that end early: when, why, and with the bits of a run that was planned so."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from unskew.cli import main
from unskew.errors import InputError
from unskew.readings import METRICS
from unskew.runs.early_stop import Budget, Patience, StopWhen
from unskew.runs.ended import Run
from unskew.runs.measure import gamma
from unskew.runs.result import params_hash
from unskew.runs.running import resume, run
from unskew.runs.saved_model import load_run
from unskew.runs.spec import Spec
from unskew.runs.stop_rule import check_stop, find_number, read_budget, read_stop
from unskew.runs.sweep import plan_cells
from unskew.testing.toy_federation import tiny

COMMON: dict[str, Any] = {
    "model": "mlp(hidden=[6])",
    "cohort": 4,
    "rounds": 9,
    "lr": 0.1,
    "batch": 4,
    "engine": "loop",
    "checkpoint": 0.0,
}
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "seldom": {"evaluate": 4, "late": 0.3, "drop": 0.2},
    "phases": {"method": "phase_shift(2)"},
    "calibrated": {"method": "ccvr(virtual=5,epochs=1)", "evaluate": 2},
    "always": {"method": "ccvr(virtual=5,epochs=1,every=true)"},
    "alone": {"method": "local_only", "evaluate": 2},
    "measured": {"measure": ("divergence", "gamma"), "evaluate_clients": True},
    "on the air": {"network": "wireless()", "method": "ccvr(virtual=5,epochs=1)"},
}


def played(**settings: Any) -> Run:
    return run(dataset=tiny(), progress=False, **COMMON | settings)


def numbers(one: Run) -> dict[str, Any]:
    """Every number of a run but the time, and why it ended."""
    lines = [{k: v for k, v in line.items() if k != "wall_s"} for line in one.folder.lines]
    left_out = ("totals", "effective", "stopped")
    kept = {k: v for k, v in one.result.items() if k not in left_out}
    totals = {k: v for k, v in one.result["totals"].items() if k != "wall_s"}
    return kept | {"totals": totals, "lines": lines, "model": params_hash(one.state.params)}


# --- what is written


@pytest.mark.parametrize(
    ("text", "line", "met"),
    [
        ("accuracy > 0.9", {"global_test_accuracy": 0.9}, ""),
        ("accuracy > 0.9", {"global_test_accuracy": 0.91}, "accuracy > 0.9"),
        ("accuracy>=.9", {"global_test_accuracy": 0.9}, "accuracy >= .9"),
        ("loss < 0.3", {"global_test_loss": 0.2}, "loss < 0.3"),
        ("log_loss < 0.3", {"global_test_loss": 0.2}, "log_loss < 0.3"),
        ("accuracy > 0.9, loss < 0.3", {"global_test_accuracy": 0.95, "global_test_loss": 0.4}, ""),
        (
            "accuracy > 0.9 or loss < 0.5",
            {"global_test_accuracy": 0.1, "global_test_loss": 0.4},
            "loss < 0.5",
        ),
        (
            "accuracy > 0.9 AND round >= 3",
            {"global_test_accuracy": 0.95, "round": 3},
            "accuracy > 0.9 and round >= 3",
        ),
        ("accuracy > 0.9", {"round": 3}, ""),
        ("loss < 0.3", {"global_test_loss": float("nan")}, ""),
        ("loss < 0.3", {"global_test_loss": None}, ""),
        (
            "accuracy > 0.9",
            {"global_test_accuracy": 0.95, "validation_accuracy": 0.91},
            "validation accuracy > 0.9",
        ),
        ("accuracy > 0.9", {"global_test_accuracy": 0.95, "validation_accuracy": 0.89}, ""),
        (
            "global_test_accuracy > 0.9",
            {"global_test_accuracy": 0.95, "validation_accuracy": 0.8},
            "global_test_accuracy > 0.9",
        ),
    ],
)
def test_a_rule_holds_where_its_numbers_do(text: str, line: dict[str, Any], met: str) -> None:
    """By validation samples where there are some; what has no number holds nothing."""
    assert StopWhen(read_stop(text)).look(line) == met


@pytest.mark.parametrize(
    "text",
    [
        "accuracy",
        "accuracy >",
        "accuracy = 0.9",
        "0.9 < accuracy",
        "accuracy > high",
        "a > 1,",
        "> 1",
        "a > nan",
    ],
)
def test_nonsense_is_refused_with_names(text: str) -> None:
    """In one sentence, with an example."""
    with pytest.raises(InputError) as problem:
        Spec(stop=text)
    assert f"stop cannot be read in {text!r}" in str(problem.value)
    assert "such as accuracy > 0.9, or loss < 0.3 and round >= 20 (names: accuracy" in str(problem.value)


def test_a_name_that_no_line_has_is_refused_with_those_there_are(tmp_path: Path) -> None:
    """Before anything is written; which names there are depends on the run."""
    with pytest.raises(InputError) as problem:
        played(stop="acuracy > 0.9", out=tmp_path / "run")
    assert str(problem.value).startswith(
        "stop names 'acuracy', which no line of this run's log has; write one of accuracy, balanced_accuracy, "
        "macro_f1, worst_class, log_loss, loss, round, "
    )
    assert not (tmp_path / "run").exists()
    with pytest.raises(InputError, match="stop names 'auc'"):
        played(stop="auc > 0.9")  # of three classes
    with pytest.raises(InputError, match="stop names 'air_s'"):
        played(stop="air_s > 9")
    assert "stopped" not in played(stop="air_s > 1e9", network="wireless()", rounds=1).result


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("accuracy > 90", "accuracy > 0.9"),
        ("macro_f1 >= 1.5", "macro_f1 >= 0.015"),
        ("accuracy > 1", "accuracy > 0.9"),
    ],
)
def test_what_a_share_can_never_be_is_refused(text: str, instead: str) -> None:
    """It would train to the end, and its user would wonder."""
    with pytest.raises(InputError, match=f"never holds, .* write {instead}"):
        check_stop(read_stop(text), ["accuracy", "macro_f1"], ["accuracy", "macro_f1"])
    check_stop(read_stop("accuracy >= 1"), ["accuracy"], ["accuracy"])


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("500MB", {"bytes": 5e8}),
        ("1.5 GiB", {"bytes": 1.5 * 2**30}),
        ("10min", {"seconds": 600}),
        ("2 hours and 3e3 kB", {"seconds": 7200, "bytes": 3e6}),
        ("90s on the air, 1h", {"air": 90, "seconds": 3600}),
        ("2min air", {"air": 120}),
    ],
)
def test_budgets_are_read_in_plain_words(text: str, kinds: dict[str, float]) -> None:
    """Decimal units, as reports have them, or binary ones by their own names."""
    assert {amount.kind: amount.most for amount in read_budget(text)} == kinds


@pytest.mark.parametrize("text", ["500", "MB", "-5MB", "10m", "5 MB on the air", "1 MB or 2 s", "1,5 MB"])
def test_a_budget_without_a_unit_is_refused(text: str) -> None:
    """In one sentence that says what to write."""
    with pytest.raises(
        InputError, match=r"budget cannot be read in .* such as 500MB, 10min, or 90s on the air"
    ):
        Spec(budget=text)


def test_other_budgets_that_cannot_be_are_refused() -> None:
    """Nothing at all, the same twice, and time on the air without a network."""
    with pytest.raises(InputError, match="budget must be above 0 and finite, not 0MB"):
        Spec(budget="0MB")
    with pytest.raises(InputError, match="budget names 1MB and 2kB, which limit the same; keep one"):
        Spec(budget="1MB, 2kB")
    with pytest.raises(
        InputError, match=r"budget = 90s air needs clients that are linked; write network = wireless"
    ):
        played(budget="90s air")
    with pytest.raises(InputError, match="patience must be at least 1, not 0"):
        Spec(patience=0)


def test_none_is_none_however_it_is_written() -> None:
    """A flag has no other word for it."""
    assert Spec(stop="none", budget=" None ") == Spec()


def test_a_budget_below_one_round_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """Four clients take a model and send it back; what the sentence says to write is enough."""
    net = played(rounds=1).folder.lines[0]
    whole = net["bytes_down"] + net["bytes_up"]
    with pytest.raises(
        InputError, match=r"budget = 10B is less than one round costs: a model of .* and back"
    ) as told:
        played(budget="10B", rounds=2, out=tmp_path / "never")
    assert not (tmp_path / "never").exists()
    assert f"{whole:.4g} B in all" in str(told.value)
    enough = re.search(r"write budget = (.*) for all 2 rounds", str(told.value))
    assert enough is not None
    assert len(played(budget=enough[1], rounds=2).folder.lines) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "local_only"},  # nothing travels
        {"method": "topk(0.1)", "budget": "{one}B"},  # less comes back than went out
        {"drop": 0.9, "budget": "{one}B"},
        {"method": "phase_shift(2)", "budget": "{one}B"},
        {"budget": "1s"},
    ],
)
def test_a_budget_that_a_first_round_may_keep_to_is_not_refused(settings: dict[str, Any]) -> None:
    """Only what is certain to be too little is refused; a run that was begun may be told any budget."""
    line = played(rounds=1).folder.lines[0]
    fits = str(settings.get("budget", "1B")).format(one=line["bytes_down"])
    assert played(**settings | {"budget": fits, "rounds": 2}).result["rounds"] >= 1
    assert Spec(stop=" accuracy  >  0.9 ").stop == "accuracy > 0.9"


# --- when


def judged(round: int, accuracy: float | None, **more: Any) -> dict[str, Any]:
    return {"round": round, "global_test_accuracy": accuracy, **more}


def test_patience_counts_rounds_since_the_best() -> None:
    """Only rounds that were judged can end it; what is equal, or no number, is no better."""
    watch = Patience(3, METRICS["accuracy"])
    lines = [judged(1, 0.5), judged(2, 0.6), {"round": 3}, judged(4, 0.6), {"round": 5}, judged(6, None)]
    assert [bool(watch.look(line)) for line in lines] == [False, False, False, False, False, True]
    watch = Patience(2, METRICS["accuracy"])
    assert [watch.look(judged(r, 0.5, validation_accuracy=v)) for r, v in ((1, 0.1), (2, 0.2), (3, 0.2))] == [
        ""
    ] * 3
    said = watch.look(judged(4, 0.9, validation_accuracy=0.1))
    assert said == "no better validation accuracy than 0.2000 of round 2 for 2 rounds"


def test_patience_knows_that_a_loss_is_better_when_smaller() -> None:
    """It goes by the metric's own direction."""
    watch = Patience(2, METRICS["log_loss"])
    lines = [judged(r, 0.5, global_test_loss=loss) for r, loss in ((1, 3.0), (2, 2.0), (3, 2.5), (4, 2.1))]
    assert [bool(watch.look(line)) for line in lines] == [False, False, False, True]


def test_a_budget_is_kept_and_not_crossed() -> None:
    """A run of 1000 bytes a round ends after three rounds of 3999, after four of 4000; with one in reserve sooner."""
    line = {"bytes_down": 400, "bytes_up": 500, "bytes_peer": 100, "wall_s": 2.0}

    def rounds(text: str, reserve: int = 1) -> int:
        watch = Budget(read_budget(text), reserve)
        return next(r for r in range(1, 100) if watch.look(line | {"round": r}))

    assert rounds("3999B") == 3
    assert rounds("4kB") == 4
    assert rounds("4kB", reserve=2) == 3
    assert rounds("9s") == 4
    assert rounds("1min, 5kB") == 5
    assert rounds("1B") == 1  # one round there is always
    assert Budget(read_budget("2 kB")).look(line | {"bytes_up": 600}) == "the budget of 2 kB (1.1 kB spent)"


def test_find_number_says_where_it_was_found() -> None:
    """A whole name is that column, whatever else there is."""
    assert find_number({"round": 3}, "round") == ("round", 3.0)
    assert find_number({}, "loss") == ("loss", None)


# --- to the bit


@pytest.mark.parametrize("case", METHODS)
def test_a_run_that_stops_has_the_bits_of_one_planned_so_and_goes_on_to_those_of_one_never_stopped(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Model, log and result: judged, calibrated and collected as at any run's end."""
    monkeypatch.setattr(gamma, "__defaults__", (20, 100))  # steps: 500 find a better minimum, not another bit
    settings = METHODS[case]
    stopped = played(stop="round >= 5", out=tmp_path / "run", **settings)
    end = 6 if case == "phases" else 5
    assert stopped.result["stopped"]["rounds"] == stopped.state.round == stopped.result["rounds"] == end
    assert numbers(stopped) == numbers(played(rounds=end, **settings))
    model = stopped.model if case != "alone" else None
    again = resume(tmp_path / "run", dataset=tiny(), progress=False)
    assert numbers(again) == numbers(stopped)
    if model is not None:
        for name, value in model.state_dict().items():
            assert value.equal(again.model.state_dict()[name])
    longer = resume(tmp_path / "run", dataset=tiny(), progress=False, stop=None)
    assert "stopped" not in longer.result
    assert numbers(longer) == numbers(played(**settings))


@pytest.mark.parametrize("case", ["fedavg", "seldom", "phases", "calibrated"])
@pytest.mark.parametrize("where", ["asked", "judged", "result"])
def test_a_run_killed_while_it_stops_stops_where_it_would_have(
    case: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is written that it stops, once it is judged as the last, and before its result is there."""
    settings = METHODS[case] | {"stop": "round >= 5"}
    whole = played(**settings)
    module = sys.modules["unskew.runs.rounds"]
    owner, name = {
        "asked": (module.Keeper, "stopping"),
        "judged": (module.RoundLoop, "result"),
        "result": (module, "write_weights"),
    }[where]

    def kill(*given: Any, **more: Any) -> None:
        raise SystemExit(9)  # which nothing in a run catches, as a kill

    monkeypatch.setattr(owner, name, kill)
    with pytest.raises(SystemExit):
        played(out=tmp_path / "run", **settings)
    monkeypatch.undo()
    assert json.loads((tmp_path / "run/result.json").read_text())["status"] == "running"
    ended = resume(tmp_path / "run", dataset=tiny(), progress=False)
    assert ended.result["stopped"] == whole.result["stopped"]
    assert numbers(ended) == numbers(whole)


@pytest.mark.parametrize("case", ["fedavg", "calibrated", "phases"])
def test_a_stopped_run_whose_result_is_damaged_is_made_again(case: str, tmp_path: Path) -> None:
    """Its last line may be that of an end, so that round is played again."""
    settings = METHODS[case] | {"stop": "round >= 5"}
    whole = played(out=tmp_path / "run", **settings)
    (tmp_path / "run/result.json").write_text("{")
    with pytest.warns(UserWarning, match="result.json is damaged"):
        ended = resume(tmp_path / "run", dataset=tiny(), progress=False)
    assert ended.result["stopped"] == whole.result["stopped"]
    assert numbers(ended) == numbers(whole)
    assert f"(stopped: {whole.result['stopped']['said']})" in repr(load_run(tmp_path / "run"))


def test_an_interrupted_run_counts_its_patience_from_the_log(tmp_path: Path) -> None:
    """A resume ends where the run would have."""

    class Interrupts:
        def round_ended(self, round: Any) -> None:
            if round.round == 4:
                raise KeyboardInterrupt

    settings = COMMON | {"rounds": 30, "patience": 3, "lr": 0.001}
    whole = run(dataset=tiny(), progress=False, **settings)
    assert whole.result["stopped"]["by"] == "patience"
    with pytest.raises(KeyboardInterrupt):
        run(dataset=tiny(), progress=False, out=tmp_path / "run", watch=[Interrupts()], **settings)
    ended = resume(tmp_path / "run", dataset=tiny(), progress=False)
    assert ended.result["stopped"] == whole.result["stopped"]
    assert numbers(ended) == numbers(whole)


def test_a_resume_stays_stopped_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    """A longer plan with the same rule ends where one planned so would; another rule that holds ends it there too."""
    played(stop="round >= 3", out=tmp_path / "run")
    longer = resume(tmp_path / "run", dataset=tiny(), progress=False, rounds=20)
    assert longer.result["stopped"]["said"] == "round >= 3 at round 3 of 20"
    other = resume(tmp_path / "run", dataset=tiny(), progress=False, stop="round >= 2")
    assert other.result["stopped"]["said"] == "round >= 2 at round 3 of 20"
    further = resume(tmp_path / "run", dataset=tiny(), progress=False, stop="round >= 7")
    assert further.result["stopped"]["said"] == "round >= 7 at round 7 of 20"
    changes = json.loads((tmp_path / "run/spec.json").read_text())["changes"]
    assert [change["to"] for change in changes] == [
        {"rounds": 20},
        {"stop": "round >= 2"},
        {"stop": "round >= 7"},
    ]


def test_a_rule_that_holds_in_the_last_round_stops_nothing() -> None:
    """The run had all its rounds; where a last one is played otherwise that counts as the planned one."""
    assert "stopped" not in played(stop="round >= 9").result
    ended = played(stop="round >= 8", method="phase_shift(2)")
    assert "stopped" not in ended.result
    assert numbers(ended) == numbers(played(method="phase_shift(2)"))


def test_a_decay_keeps_to_the_plan(tmp_path: Path) -> None:
    """A linear decay over nine rounds is that of nine, also in the rounds before a stop."""
    whole = played(decay="linear()")
    stopped = played(decay="linear()", stop="round >= 5", out=tmp_path / "run")
    assert [line["global_test_loss"] for line in stopped.folder.lines] == [
        line["global_test_loss"] for line in whole.folder.lines[:5]
    ]
    assert numbers(resume(tmp_path / "run", dataset=tiny(), progress=False, stop=None)) == numbers(whole)


# --- on the command line


def test_flags_and_what_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--stop, --patience and --budget; the reason stands in the table, in the lines and in the JSON."""
    base = ["--clients", "6", "--cohort", "2", "--model", "linear", "--fraction", "0.1", "--rounds", "9"]
    out = str(tmp_path / "run")
    assert (
        main(["run", *base, "--stop", "round >= 2", "--patience", "50", "--budget", "1GB, 1h", "-o", out])
        == 0
    )
    said = capsys.readouterr()
    assert "fedavg: stopped: round >= 2 at round 2 of 9" in said.err
    assert "round >= 2 at round 2 of 9" in said.out
    assert main(["resume", out, "--stop", "none", "--budget", "none", "--patience", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rounds"] == 9


# --- with other metrics, and samples to choose by


def test_patience_and_rules_go_by_validation_samples_where_there_are_some() -> None:
    """And by the first metric that was chosen; the reason says so."""
    settings = {"rounds": 30, "lr": 1e-6, "validation": 0.2, "metrics": ("macro_f1",)}
    ended = played(patience=2, **settings)
    lines = ended.folder.lines
    best = max(line["validation_macro_f1"] for line in lines)
    assert ended.result["stopped"]["reason"].startswith(
        f"no better validation macro F1 than {best:.4f} of round"
    )
    reached = played(stop="accuracy >= 0", **settings).result["stopped"]
    assert reached["said"] == "validation accuracy >= 0 at round 1 of 30"


def test_a_metric_of_ones_own_may_end_a_run() -> None:
    """By its name; one that is not given is unknown."""

    def always(truth: Any, predicted: Any) -> float:
        return 0.5

    ended = played(stop="mine >= 0.5", metrics={"mine": always})
    assert ended.result["stopped"]["said"] == "mine >= 0.5 at round 1 of 9"
    with pytest.raises(InputError, match="stop names 'mine'"):
        played(stop="mine >= 0.5")


def test_a_sweep_goes_on_with_cells_that_another_rule_had_ended(tmp_path: Path) -> None:
    """What had all its rounds stays done; a rule that is taken out of the file counts as a change, too."""
    settings: dict[str, Any] = COMMON | {"dataset": "digits", "fraction": 0.1, "clients": 6, "rounds": 4}
    del settings["checkpoint"]
    cells = plan_cells(settings, {"seed": [0]}, tmp_path / "full")
    run(cells[0].spec, out=cells[0].folder, progress=False)
    assert plan_cells(settings | {"stop": "round >= 2"}, {"seed": [0]}, tmp_path / "full")[0].status == "done"
    ruled = settings | {"stop": "round >= 2"}
    (cell,) = plan_cells(ruled, {"seed": [0]}, tmp_path / "ruled")
    run(cell.spec, out=cell.folder, progress=False)
    assert plan_cells(ruled, {"seed": [0]}, tmp_path / "ruled")[0].status == "done"
    (again,) = plan_cells(settings, {"seed": [0]}, tmp_path / "ruled")
    assert (again.status, again.renewed) == ("waiting", {"stop": None})
    assert resume(again.folder, progress=False, **again.renewed).state.round == 4


def test_many_of_a_small_unit_are_written_out() -> None:
    (amount,) = read_budget("1B")
    assert [amount.say(spent) for spent in (7776, 360240)] == ["7776 B", "360,240 B"]
