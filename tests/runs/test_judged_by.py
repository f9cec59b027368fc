"""What runs are judged by: every metric in every log, the first for best and target, own ones, explained blanks."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from unskew import Metric
from unskew.cli import app
from unskew.core.evaluate_clients import judge_own_models
from unskew.core.memory_names import OWN_MODEL
from unskew.data import from_arrays
from unskew.errors import InputError
from unskew.runs.running import resume, run
from unskew.runs.spec import Spec

SETTINGS: dict[str, Any] = {
    "partition": "iid",
    "clients": 4,
    "cohort": 4,
    "rounds": 3,
    "lr": 0.3,
    "engine": "loop",
    "progress": False,
}


def patients(test: Any = None, classes: int = 2) -> Any:
    """One in five is ill, and the features tell; ``test`` are the labels of the test set."""
    rng = np.random.default_rng(0)
    y = np.arange(100) % 5 == 0 if classes > 1 else np.zeros(100, bool)
    truth = np.asarray(y if test is None else test, np.int64)

    def features(labels: Any) -> Any:
        return rng.normal(size=(len(labels), 3)).astype(np.float32) + 1.5 * np.asarray(labels)[:, None]

    labels = ("healthy", "ill")[:classes]
    return from_arrays(features(y), y.astype(np.int64), features(truth), truth, labels=labels)


def ill_missed(y_true: Any, y_pred: Any, probabilities: Any) -> float:
    """How many ill were missed."""
    return float(np.sum((y_true == 1) & (y_pred == 0)))


COST = Metric(ill_missed, larger_is_better=False)


def test_every_line_has_every_metric_and_they_are_scikit_learns():
    """Of the last round: what scikit-learn makes of the model's own predictions."""
    from sklearn.metrics import balanced_accuracy_score, f1_score, log_loss, roc_auc_score

    data = patients()
    ended = run(dataset=data, **SETTINGS)
    answers = ended.predict(data.x_test)
    found, truth = answers.probabilities.argmax(1), data.y_test
    line = ended.folder.lines[-1]
    assert line["global_test_balanced_accuracy"] == pytest.approx(balanced_accuracy_score(truth, found))
    assert line["global_test_macro_f1"] == pytest.approx(f1_score(truth, found, average="macro"))
    assert line["global_test_worst_class"] == min(line["per_class_accuracy"])
    assert line["global_test_auc"] == pytest.approx(roc_auc_score(truth, answers.probabilities[:, 1]))
    assert line["global_test_loss"] == pytest.approx(log_loss(truth, answers.probabilities), rel=1e-5)
    result = ended.result
    assert result["metric"] == "global_test_accuracy"
    assert result["metrics"] == [
        "accuracy",
        "balanced_accuracy",
        "macro_f1",
        "worst_class",
        "log_loss",
        "auc",
    ]
    assert result["final"]["macro_f1"] == line["global_test_macro_f1"]
    assert result["final"]["log_loss"] == result["final_loss"] == line["global_test_loss"]
    assert "blanks" not in result


def test_the_first_metric_decides_what_is_best_and_what_is_reached():
    """Of the loss less is better: the best round has the lowest, and a target is reached from above."""
    settings = SETTINGS | {"rounds": 6}
    lines = run(dataset=patients(), **settings).folder.lines
    losses = [line["global_test_loss"] for line in lines]
    between = (losses[1] + losses[2]) / 2
    result = run(
        dataset=patients(), metrics=["log_loss", "accuracy"], target=[between, 0.0], **settings
    ).result
    best = int(np.argmin(losses))
    assert (result["metric"], result["metrics"]) == ("global_test_loss", ["log_loss", "accuracy"])
    assert (result["best"]["round"], result["best"]["log_loss"]) == (best + 1, losses[best])
    assert result["best"]["accuracy"] == lines[best]["global_test_accuracy"]
    reached = next(line["round"] for line in lines if line["global_test_loss"] <= between)
    assert result["rounds_to_target"] == {str(between): reached, "0.0": None}


@pytest.mark.parametrize("metric", ["balanced_accuracy", "macro_f1", "worst_class", "auc"])
def test_targets_go_by_the_first_metric(metric):
    """Whatever that is."""
    ended = run(dataset=patients(), metrics=[metric], target=[0.6], **SETTINGS)
    values = [line[f"global_test_{metric}"] for line in ended.folder.lines]
    first = next((at + 1 for at, value in enumerate(values) if value >= 0.6), None)
    assert ended.result["rounds_to_target"] == {"0.6": first}
    assert ended.result["best"][metric] == max(values)


@pytest.mark.parametrize(
    ("test", "classes", "why"),
    [
        ([0, 0, 0], 2, "the test set has no sample of 'ill'"),
        ([1], 2, "the test set has no sample of 'healthy'"),
        ([0, 0], 1, None),
        ([0], 1, None),
    ],
)
def test_a_number_or_an_explained_blank(test, classes, why):
    """A class that the test set lacks, one sample, one class: only AUC can have no number, and it is said why."""
    result = run(dataset=patients(test, classes), **SETTINGS).result
    final = result["final"]
    assert all(final[name] is not None for name in result["metrics"] if name != "auc")
    assert final.get("auc") is None
    assert result.get("blanks") == (None if why is None else {"auc": why})


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_blew_up_has_blanks_that_say_so():
    """Its loss is no number, nor is the rank of its outputs; it is right as often as chance has it."""
    result = run(dataset=patients(), **SETTINGS | {"lr": 1e30, "rounds": 2}, metrics=["log_loss"]).result
    if result["final"]["log_loss"] is None:
        assert result["blanks"]["log_loss"] == "the model's outputs are not finite"
    assert result["final"]["accuracy"] is not None


@pytest.mark.parametrize(
    ("data", "given", "said"),
    [
        (None, ["acuracy"], "there is no metric 'acuracy'; did you mean 'accuracy'"),
        (
            None,
            ["auc"],
            "auc is for two classes, and digits has 10; choose among accuracy, balanced_accuracy",
        ),
        ([0, 0], ["auc"], "a run cannot go by auc, since the test set has no sample of 'ill'; name another"),
        (None, ["accuracy", "accuracy"], "metrics names accuracy twice; name it once"),
        (None, {"odd": lambda y, p: "x"}, "the metric 'odd' gave 'x', and must give one number"),
        (None, {"accuracy": ill_missed}, "'accuracy' is a metric of unskew's own"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(data, given, said, tmp_path):
    """In one sentence."""
    dataset = "digits" if data is None else patients(data)
    with pytest.raises(InputError, match=said):
        run(dataset=dataset, metrics=given, out=tmp_path / "run", **SETTINGS)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("metrics", "target", "said"),
    [
        (("macro_f1",), 80, "target is a value of macro_f1 from 0 to 1, such as 0.9, not 80"),
        ((), 80, "target is an accuracy from 0 to 1, such as 0.9, not 80"),
        (("log_loss",), float("inf"), "target is a finite number, a value of log_loss, not inf"),
    ],
)
def test_a_target_fits_the_first_metric(metrics, target, said):
    """A share of 1 where that is one; a loss or a cost may be anything finite."""
    with pytest.raises(InputError, match=said):
        Spec(metrics=metrics, target=(target,))
    assert Spec(metrics=("log_loss",), target=(2.5,)).target == (2.5,)
    assert Spec(metrics=("cost",), target=(120.0,)).target == (120.0,)


@pytest.mark.parametrize("engine", ["loop", "fast"])
def test_a_metric_of_your_own_is_logged_and_ranked_by(engine):
    """By every engine, from the probabilities of the test set; of a cost less is better."""
    settings = SETTINGS | {"engine": engine, "workers": 2, "rounds": 4}
    data = patients()
    mean = Metric(lambda y, guess, p: p[:, 1].mean())
    ended = run(dataset=data, metrics={"ill_missed": COST, "mean": mean, "accuracy": None}, **settings)
    lines, result = ended.folder.lines, ended.result
    values = [line["global_test_ill_missed"] for line in lines]
    assert result["best"]["ill_missed"] == min(values)
    assert result["metrics"] == ["ill_missed", "mean", "accuracy"]
    assert result["data"]["own_metrics"]["ill_missed"] == {
        "help": "How many ill were missed.",
        "larger_is_better": False,
        "percent": False,
    }
    probabilities = ended.predict(data.x_test).probabilities
    assert lines[-1]["global_test_mean"] == pytest.approx(probabilities[:, 1].mean(), rel=1e-5)
    assert repr(ended).endswith(f"ill missed {values[-1]:.4f})")


def test_a_resume_needs_it_again_and_says_so(tmp_path):
    """With the function it goes on to the numbers of a run never stopped; without, or with another, it is refused."""
    data, path = patients(), tmp_path / "run"
    whole = run(dataset=data, metrics={"cost": COST, "macro_f1": None}, **SETTINGS)
    run(dataset=data, metrics={"cost": COST, "macro_f1": None}, out=path, **SETTINGS | {"rounds": 2})
    with pytest.raises(
        InputError, match=r"run with a metric given in Python, 'cost'; resume it there: unskew.resume"
    ):
        resume(path, dataset=data, rounds=3, progress=False)
    with pytest.raises(InputError, match="the metric 'other' comes too late"):
        resume(path, dataset=data, metrics={"cost": COST, "other": ill_missed}, rounds=3, progress=False)
    with pytest.raises(InputError, match="began with a metric 'cost' of which smaller is better"):
        resume(path, dataset=data, metrics={"cost": ill_missed}, rounds=3, progress=False)
    ended = resume(path, dataset=data, metrics={"cost": COST}, rounds=3, progress=False)
    assert ended.result["metrics"] == ["cost", "macro_f1"]
    assert ended.result["best"] == whole.result["best"]
    assert ended.result["model_sha256"] == whole.result["model_sha256"]


def test_a_metric_that_fails_later_is_left_blank_and_the_run_goes_on():
    """A warning names it; the rounds before have their numbers, and nothing is lost."""
    calls: list[int] = []

    def moody(y_true, y_pred):
        calls.append(1)
        return 1.0 if len(calls) < 3 else None

    with pytest.warns(
        UserWarning, match="the metric 'moody' gave None, and must give one number; it is left blank"
    ):
        found = run(dataset=patients(), metrics={"accuracy": None, "moody": moody}, **SETTINGS)
    told = [line["global_test_moody"] for line in found.folder.lines]
    assert (told[0], told[-1], found.result["status"]) == (1.0, None, "done")


def test_nan_is_a_blank_that_is_explained():
    """A metric of one's own may have no number in a round."""
    result = run(dataset=patients(), metrics={"odd": lambda y, p: float("nan")}, **SETTINGS).result
    assert result["best"]["odd"] is None
    assert result["blanks"] == {"odd": "it gave no finite number"}


def test_a_resume_may_choose_other_metrics_of_a_run_that_is_done(tmp_path):
    """They are all in its log: nothing is trained, and best and targets are taken anew."""
    data, path = patients(), tmp_path / "run"
    before = run(dataset=data, out=path, **SETTINGS).result
    after = resume(path, dataset=data, metrics="log_loss", target=[0.1], progress=False).result
    assert (after["metric"], after["metrics"]) == ("global_test_loss", ["log_loss"])
    assert after["model_sha256"] == before["model_sha256"]
    assert json.loads((path / "spec.json").read_text())["spec"]["metrics"] == ["log_loss"]


def test_clients_on_their_own_have_the_means_of_their_metrics():
    """Every client's model is judged by all."""
    from sklearn.metrics import f1_score

    data = patients()
    ended = run(dataset=data, method="local_only", metrics={"cost": COST, "macro_f1": None}, **SETTINGS)
    line = ended.folder.lines[-1]
    scores = []
    for client in range(4):
        guess = ended.client_model(client)(torch.from_numpy(data.x_test)).argmax(1).numpy()
        scores.append((f1_score(data.y_test, guess, average="macro"), ill_missed(data.y_test, guess, None)))
    assert line["global_test_macro_f1"] == pytest.approx(np.mean([f1 for f1, _ in scores]))
    assert line["global_test_cost"] == pytest.approx(np.mean([cost for _, cost in scores]))
    assert line["global_test_balanced_accuracy"] == pytest.approx(np.mean(line["per_class_accuracy"]))


def test_what_was_remembered_of_clients_models_before_is_taken_anew():
    """A checkpoint of a version that had no such tables: every model that has trained is judged again."""
    ended = run(dataset=patients(), method="local_only", **SETTINGS)
    state, line = ended.state, ended.folder.lines[-1]
    table = state.server[OWN_MODEL]
    state.server[OWN_MODEL] = {k: v for k, v in table.items() if not k.startswith("score_")}
    again = judge_own_models(ended.plan, state)
    assert again.items() <= line.items()
    assert state.server[OWN_MODEL].keys() == table.keys()


def test_an_experiment_file_and_flags_choose_metrics(tmp_path):
    """And the terminal tells the chosen ones, the first as final and best."""
    file = tmp_path / "e.toml"
    file.write_text('rounds = 2\nclients = 5\ncohort = 5\nmetrics = ["macro_f1", "accuracy"]\n')
    said = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "run")])
    assert said.exit_code == 0, said.output
    assert "global test macro F1 after round 2" in said.output
    assert "accuracy 0." in said.output
    assert "worst class" not in said.output
    wrong = CliRunner().invoke(app, ["run", "--metrics", "f1", "--out", str(tmp_path / "other")])
    assert "there is no metric 'f1'; write one of accuracy" in str(wrong.exception)


def test_a_spec_has_names_alone():
    """Functions cannot be written to a file: where they belong is said."""
    with pytest.raises(InputError, match="metrics of a spec are names"):
        Spec(metrics={"cost": COST})  # type: ignore[arg-type]
    assert Spec(metrics="macro_f1").metrics == ("macro_f1",)


def test_the_command_line_lists_them():
    """With a line each, also as JSON."""
    shown = CliRunner().invoke(app, ["metrics"]).output
    assert "balanced_accuracy" in shown
    assert '["macro_f1", "accuracy"]' in shown.replace("\n", "")
    told = json.loads(CliRunner().invoke(app, ["metrics", "--json"]).output)
    assert told["log_loss"]["larger_is_better"] is False
