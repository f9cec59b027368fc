"""``local_only``: every client on its own, judged on the same test set; the lower bound beside ``centralized``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import unskew
from unskew.core.memory_names import OWN_MODEL
from unskew.core.method import Method
from unskew.core.store import ClientStore
from unskew.engines.cpu.fast import FastCPU
from unskew.errors import InputError
from unskew.parts.schedule import alone
from unskew.privacy import attack
from unskew.progress import Silent
from unskew.runs.running import resume, run
from unskew.testing.toy_federation import apart, models, play, tiny

LOCAL = Method.parse("local_only")
SETTINGS: dict[str, Any] = {
    "model": "mlp(hidden=[6])",
    "cohort": 4,
    "rounds": 6,
    "lr": 0.1,
    "batch": 4,
    "engine": "loop",
    "checkpoint": 0.0,
}


def local_run(**settings: Any) -> unskew.Run:
    return run(dataset=tiny(), method="local_only", progress=False, **(SETTINGS | settings))


def test_a_client_alone_trains_as_a_federation_of_one() -> None:
    """Where one client holds everything, averaging its model with nobody's gives its own model."""
    only = tiny(sizes=[0, 0, 7, 0])
    alone_with_it, federated = (play(Method.parse(m), only, cohort=4) for m in ("local_only", "fedavg"))
    own = alone_with_it.state.clients.get(OWN_MODEL, 2, {})
    assert apart(federated.state.params, own) < 1e-12


def test_it_does_the_work_of_the_federated_run_and_sends_nothing() -> None:
    """Round by round the same clients spend the same sample-steps; no byte moves in any direction."""
    own, federated = (play(Method.parse(m), rounds=5) for m in ("local_only", "fedavg"))
    for here, there in zip(own.lines, federated.lines, strict=True):
        assert here["sample_steps"] == there["sample_steps"]
        assert here["asked"] == here["trained_only"] == there["asked"]
        assert here["bytes_down"] == here["bytes_up"] == here["bytes_peer"] == 0
    assert all(sum(there["bytes"]["up"].values()) for there in federated.lines)


def test_the_accuracy_is_the_mean_over_clients_on_the_global_test_set() -> None:
    """Every model is judged here once more, on its own; those who had no turn are left out, and counted."""
    ended = local_run(rounds=1)
    data = tiny().dataset
    x = torch.from_numpy(data.x_test)
    each = {one["client"]: one["accuracy"] for one in ended.result["own_models"]["each"]}
    assert len(each) == 4
    for client, accuracy in each.items():
        model = ended.client_model(int(client)).double()
        assert (model(x).argmax(1).numpy() == data.y_test).mean() == pytest.approx(accuracy, abs=1e-6)
    told, values = ended.result["own_models"], np.array(list(each.values()))
    assert (told["clients"], told["of"]) == (4, 8)
    assert ended.result["final"]["accuracy"] == pytest.approx(values.mean(), abs=1e-6)
    assert told["sd"] == pytest.approx(values.std(ddof=1), abs=1e-6)
    assert (told["min"], told["max"]) == pytest.approx((values.min(), values.max()), abs=1e-6)


def test_judging_seldom_ends_in_the_same_numbers() -> None:
    """Models that trained since the last evaluation are all judged at the next, no matter how many rounds passed."""
    assert local_run().result["own_models"] == local_run(evaluate=6).result["own_models"]


def test_many_clients_are_trained_in_groups_and_kept_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of eight, and memories that do not fit: the same models to the last bit."""
    many = tiny(sizes=[3] * 40)
    whole = play(LOCAL, many, cohort=30)
    monkeypatch.setattr(alone, "AT_ONCE", 1)
    monkeypatch.setattr(ClientStore, "__init__", _small(ClientStore.__init__))
    grouped = play(LOCAL, many, cohort=30)
    assert grouped.state.clients.spill is not None
    assert grouped.hash == whole.hash
    assert len(grouped.lines[0]["visits"]) == 4  # a group is a leg of its own, and the log tells legs
    assert [line | {"visits": None} for line in grouped.lines] == [
        line | {"visits": None} for line in whole.lines
    ]
    for one, other in zip(grouped.lines, whole.lines, strict=True):
        assert [c for leg in one["visits"] for c in leg["clients"]] == other["visits"][0]["clients"]


def _small(plain: Any) -> Any:
    def made(self: ClientStore, rows: Any = None, budget: int = 0, *rest: Any) -> None:
        plain(self, {} if rows is None else rows, 5000, *rest)

    return made


def test_two_workers_bring_back_what_one_does() -> None:
    """Own models travel to other processes and back, to the last bit."""
    engine = FastCPU(workers=2)
    found = play(LOCAL, engine=engine)
    engine.close()
    assert found.hash == play(LOCAL, engine=FastCPU(workers=1)).hash


def test_it_resumes_to_the_same_bits(tmp_path: Path) -> None:
    """Stopped in the middle and gone on with: the result, spread and fingerprint included, is that of a whole run."""
    whole = local_run(out=tmp_path / "whole")

    class Stop(Silent):
        def advance(self, line: dict[str, Any]) -> None:
            if line["round"] == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(dataset=tiny(), method="local_only", progress=Stop(), out=tmp_path / "cut", **SETTINGS)
    ended = resume(tmp_path / "cut", dataset=tiny(), progress=False)
    for key in ("model_sha256", "own_models", "final", "best"):
        assert ended.result[key] == whole.result[key]
    assert apart(models(whole.state), models(ended.state)) == 0


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        (
            "local_only+fednova",
            "local_only exchanges nothing, and fednova combines models; leave fednova out",
        ),
        (
            "local_only+fedprox",
            "local_only exchanges nothing, and fedprox needs the global model; leave fedprox out",
        ),
        ("local_only+kld", "local_only exchanges nothing, and kld sends label counts; leave kld out"),
        ("local_only+sem", "alone and sem both decide 'schedule'; keep one"),
    ],
)
def test_what_needs_the_others_is_refused(expression: str, sentence: str) -> None:
    with pytest.raises(InputError) as problem:
        Method.parse(expression)
    assert str(problem.value) == sentence


def test_what_a_client_does_for_itself_goes_with_it() -> None:
    """Losses and augmented data of a client's own need nobody."""
    assert str(Method.parse("local_only+fedlc+fedaug+full")) == "fedaug+full+alone+fedlc"


def test_there_is_no_global_model_to_hand_out_or_to_attack(tmp_path: Path) -> None:
    """The first model that nobody trained is not passed off as a result."""
    ended = local_run(out=tmp_path / "run")
    with pytest.raises(InputError, match="makes no global model: every client keeps its own"):
        _ = ended.model
    with pytest.raises(InputError, match="nothing leaves a client"):
        attack(tmp_path / "run", dataset=tiny())
    with pytest.raises(InputError, match="keep keeps global models"):
        local_run(keep=(1,))
    with pytest.raises(InputError, match="gamma looks at the global model"):
        local_run(measure=("gamma",))
