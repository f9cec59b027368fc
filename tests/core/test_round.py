"""One round: who is asked, who is lost, who comes late, what is counted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from by_hand import round_of
from unskew.core.faults import Faults, finite
from unskew.core.method import Method
from unskew.core.round import play_round
from unskew.core.slots import Exchange, Play, Visit
from unskew.core.state import State
from unskew.core.types import Leg, Tree, Update, weighted_sum
from unskew.engines import Loop
from unskew.engines.cpu.fast import FastCPU
from unskew.errors import InputError
from unskew.parts.aggregate import FedAvg
from unskew.parts.schedule import Plain
from unskew.parts.select import Full, Uniform
from unskew.runs.result import params_hash
from unskew.runs.running import run
from unskew.runs.setup import set_up
from unskew.runs.spec import Spec
from unskew.seeds import generator
from unskew.testing.toy_federation import apart, normed, play, ready, tiny


def rounds(
    method: Method | None = None, count: int = 6, **settings: Any
) -> tuple[list[dict[str, Any]], State]:
    """The log and the last state of a few rounds on the tiny federation (8 clients, cohorts of 4)."""
    setup = ready(method or Method(), settings.pop("federation", None), rounds=count, **settings)
    state, lines = setup.state, []
    for _ in range(count):
        state, line = play_round(setup.run, state)
        lines.append(line)
    return lines, state


# --- selection


def test_uniform_selection_draws_everyone_equally_often() -> None:
    """Of 8 clients 3 are drawn 4,000 times: each about 1,500 times (a standard deviation is 31)."""
    drawn, federation = np.zeros(8, int), tiny()
    for n in range(4000):
        cohort, _ = Uniform().select(3, np.zeros(0, int), federation, {}, generator(0, "draw", n))
        drawn[cohort.clients] += 1
    assert np.abs(drawn - 1500).max() < 5 * 31


@pytest.mark.parametrize("exclude", [[], [0], [7], [0, 1, 2], [2, 5, 6], list(range(8))])
def test_uniform_selection_reaches_all_who_are_free(exclude: list[int]) -> None:
    """Whoever is not excluded can be drawn, and all of them are when as many are asked for."""
    taken = np.array(exclude, np.int64)
    cohort, _ = Uniform().select(8, taken, tiny(), {}, generator(0, "all"))
    assert sorted(cohort.clients.tolist()) == sorted(set(range(8)) - set(exclude))


def test_full_selection_takes_everyone_but_the_excluded() -> None:
    cohort, _ = Full().select(1, np.array([3]), tiny(), {}, generator(0, "full"))
    assert cohort.clients.tolist() == [0, 1, 2, 4, 5, 6, 7]


def test_a_schedule_may_ask_for_nobody() -> None:
    """select(0) is an empty cohort, not a whole one; training it changes nothing."""
    asked: list[int] = []

    @dataclass(frozen=True)
    class Asks(Plain):
        """Asks for nobody, then for two."""

        name: ClassVar[str] = "asks"

        def round(self, play: Play, params: Tree, memory: Tree) -> tuple[Tree, Tree]:
            nobody, two = play.select(0), play.select(2)
            asked.extend([len(nobody.clients), len(two.clients)])
            return play.combine(params, play.train(Leg(nobody.clients, params))), memory

    lines, state = rounds(Method.of(Asks()), count=1)
    assert asked == [0, 2]
    assert lines[0]["answered"] == 0
    assert params_hash(state.params) == params_hash(ready(Method()).state.params)


@pytest.mark.parametrize("select", ["uniform", "full", "kld"])
def test_a_schedule_may_exclude_an_empty_list(select: str) -> None:
    """As it does in its first round who leaves out those that took part before."""

    @dataclass(frozen=True)
    class Excludes(Plain):
        """Leaves out nobody yet."""

        name: ClassVar[str] = "excludes"

        def round(self, play: Play, params: Tree, memory: Tree) -> tuple[Tree, Tree]:
            cohort = play.select(exclude=[])  # type: ignore[arg-type]
            return play.combine(params, play.train(Leg(cohort.clients, params))), memory

    method = replace(Method.parse(select), schedule=Excludes())
    assert rounds(method, count=1)[0][0]["answered"] > 0


# --- faults


def test_a_fault_hits_its_share_and_the_same_clients_every_time() -> None:
    """Of 2,000 clients about 600 drop out (a standard deviation is 20), the same ones when asked again."""
    clients = np.arange(2000)
    hit = Faults(drop=0.3).hits("drop", clients, 0, 0, 0)
    assert abs(hit.sum() - 600) < 5 * 20
    assert np.array_equal(hit, Faults(drop=0.3).hits("drop", clients, 0, 0, 0))
    assert np.array_equal(hit[::-1], Faults(drop=0.3).hits("drop", clients[::-1], 0, 0, 0))
    assert not np.array_equal(hit, Faults(drop=0.3).hits("drop", clients, 0, 1, 0))
    assert not Faults().hits("drop", clients, 0, 0, 0).any()
    assert Faults(drop=1).hits("drop", clients, 0, 0, 0).all()


def test_a_larger_share_loses_everyone_the_smaller_lost() -> None:
    """A curve over the share of lost clients compares nested sets of them."""
    clients = np.arange(300)
    few, many = (Faults(drop=s).hits("drop", clients, 0, 0, 0) for s in (0.2, 0.5))
    assert (many | few == many).all()


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_outside_0_to_1_is_refused(share: float) -> None:
    with pytest.raises(InputError, match="late is a share of clients from 0 to 1, not"):
        Faults(late=share)


def test_every_method_meets_the_same_faults() -> None:
    """Who is asked and who is lost does not depend on the method."""
    seen = [
        [(line["asked"], line["answered"]) for line in play(Method.parse(m), drop=0.4, rounds=6).lines]
        for m in ("fedavg", "fedavg(uniform=true)")
    ]
    assert seen[0] == seen[1]
    assert any(answered < asked for asked, answered in seen[0])


def test_answers_that_are_not_finite_are_rejected_and_named() -> None:
    """The model stays finite, the log says whose answers were thrown away, and their bytes count."""
    lines, state = rounds(nan=0.5)
    assert all(torch.isfinite(v).all() for v in state.params.values())
    rejected = sum(len(line.get("rejected", [])) for line in lines)
    assert rejected > 0
    assert sum(line["answered"] for line in lines) == 24 - rejected
    sizes = {line["bytes_up"] for line in lines}
    assert len(sizes) == 1


@pytest.mark.parametrize("engine", [Loop, lambda: FastCPU(workers=1)], ids=["loop", "fast"])
@pytest.mark.parametrize("method", ["fedntd", "moon"])
def test_who_diverged_once_is_heard_again_where_clients_keep_batch_statistics(
    engine: Any, method: str
) -> None:
    """The first round's rate makes every model infinite; what clients keep of it must not spoil the next rounds."""
    settings = {
        "lr": 1e25,
        "decay": "exponential(1e-27)",
        "precision": "fp32",
        "batch_norm": "local",
        "epochs": 3,
    }
    lines = play(
        Method.parse(method), tiny((6, 6, 6, 6)), model=normed, engine=engine(), cohort=4, **settings
    ).lines
    assert [len(line.get("rejected", [])) for line in lines] == [4, 0, 0]


def test_finite_looks_at_models_and_reports_of_any_shape() -> None:
    """Scalars, matrices and empty updates; a NaN in a report rejects the row too."""
    setup = ready(Method(), rounds=1)
    leg = Leg(np.arange(3), setup.job.net.initial)
    run, job, state = setup.run, setup.job, setup.state
    update = run.engine.visit(job, leg, np.arange(3), round_of(job, 0, leg.clients, {}, state.clients))
    assert finite(update).tolist() == [True, True, True]
    scalar = {"scalar": torch.tensor([1.0, torch.nan, 1.0])}
    assert finite(replace(update, uploads={"part": scalar})).tolist() == [True, False, True]
    matrix = {"matrix": torch.ones(3, 2, 2)}
    matrix["matrix"][2, 1, 1] = torch.inf
    assert finite(replace(update, uploads={"part": matrix})).tolist() == [True, True, False]
    assert finite(update.take(np.zeros(0, int))).tolist() == []


def test_a_model_with_a_scalar_parameter_trains_to_the_end() -> None:
    """A temperature, for instance: rejected answers, checkpoints and fingerprints all cope with it."""

    class Tempered(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dense, self.temperature = nn.Linear(36, 3), nn.Parameter(torch.tensor(1.0))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.dense(x.flatten(1)) * self.temperature

    ended = run(dataset=tiny(), model=Tempered(), rounds=3, cohort=4, nan=0.3, late=0.3, progress=False)
    (temperature,) = (v for k, v in ended.state.params.items() if k.endswith("temperature"))
    assert temperature.shape == ()
    assert float(temperature) != 1.0


def test_a_late_update_arrives_one_round_later_and_is_named() -> None:
    """With all updates late, round n takes those of round n - 1; nothing arrives in the first."""
    lines, _ = rounds(late=1.0, count=4)
    assert [line["answered"] for line in lines] == [0, 4, 4, 4]
    assert "late" not in lines[0]
    assert all(len(line["late"]) == 4 for line in lines[1:])


def test_a_late_update_counts_from_the_model_it_began_with() -> None:
    """One client, late: its step from w0 is added to the model of the next round, w0 + (w0' - w0) = w0'."""
    one = tiny(sizes=[7])
    _, on_time = rounds(federation=one, cohort=1, count=1)
    _, late = rounds(federation=one, cohort=1, count=2, late=1.0)
    assert apart(on_time.params, late.params) < 1e-12


def test_a_client_whose_update_is_on_its_way_is_not_asked_again() -> None:
    """So nobody has two updates in flight, and what a client remembers never goes back in time."""
    setup = ready(Method(), rounds=8, late=0.6)
    state = setup.state
    for _ in range(8):
        busy = set(state.server.get("late", {}).get("clients", torch.zeros(0)).tolist())
        cohort: list[int] = []

        class Watched(type(setup.run.engine)):  # type: ignore[misc]
            def visit(self, job: Any, leg: Leg, *rest: Any, _seen: list[int] = cohort) -> Update:
                _seen.extend(leg.clients.tolist())
                return super().visit(job, leg, *rest)  # type: ignore[no-any-return]

        holdings = setup.run.engine.holdings  # type: ignore[attr-defined]
        setup.run.engine = Watched()
        setup.run.engine.hold(holdings)
        state, _ = play_round(setup.run, state)
        assert not busy & set(cohort)


def test_everyone_busy_is_an_empty_round() -> None:
    """The one client is late in every round it is asked: it is asked every other round."""
    lines, _ = rounds(federation=tiny(sizes=[7]), cohort=1, count=4, late=1.0)
    assert [line["asked"] for line in lines] == [1, 0, 1, 0]
    assert [line["answered"] for line in lines] == [0, 1, 0, 1]


def test_a_cohort_without_samples_leaves_the_model_as_it_was() -> None:
    """Their weights are 0 of 0, which must not become NaN."""
    federation = tiny(sizes=[0, 0, 0, 0, 0, 0, 0, 6])
    setup = ready(Method(), federation, rounds=3, cohort=1)
    state, idle = setup.state, 0
    for _ in range(3):
        before = params_hash(state.params)
        state, line = play_round(setup.run, state)
        assert line["answered"] == 1
        if not line["sample_steps"]:
            assert params_hash(state.params) == before
            idle += 1
    assert idle


# --- what parts remember


@dataclass(frozen=True)
class Counts(Exchange):
    """Counts a client's visits, and uploads the count."""

    name: ClassVar[str] = "counts"
    discloses: ClassVar[tuple[str, ...]] = ("how often it took part",)

    def init_client(self, net: Any, size: float) -> Tree:
        return {"visits": torch.zeros(())}

    def report(self, visit: Visit) -> tuple[Tree, Tree]:
        more = {"visits": visit.mine["visits"] + 1}
        return more, more

    def init_server(self, net: Any) -> Tree:
        return {"heard": torch.zeros(())}

    def absorb(self, memory: Tree, update: Update, clients: int) -> Tree:
        return {"heard": memory["heard"] + len(update)}


def test_a_client_remembers_only_what_landed() -> None:
    """Lost and rejected visits leave no trace: memory and answers agree."""
    lines, state = rounds(Method.of(Counts()), drop=0.3, nan=0.3, late=0.3, count=8)
    remembered = sum(float(row["visits"]) for row in state.clients.rows["counts"].values())
    answered = sum(line["answered"] for line in lines)
    assert remembered == answered == float(state.server["counts"]["heard"])


def test_what_a_part_uploads_is_counted_under_its_name() -> None:
    """Four clients upload one float32 each: 16 bytes a round beside the models."""
    lines, _ = rounds(Method.of(Counts()), count=2)
    for line in lines:
        assert line["bytes"]["up"]["counts"] == 16
        assert line["bytes_up"] == line["bytes"]["up"]["model"] + 16


# --- sums over clients


def test_sums_do_not_depend_on_how_blocks_are_cut() -> None:
    """Weights 1/n of n equal rows give the row back exactly, for any number of rows."""
    for count in (1, 7, 8, 9, 33):
        tree = {"w": torch.full((count, 2), 0.1, dtype=torch.float64)}
        total = weighted_sum(tree, torch.full((count,), 1 / count, dtype=torch.float64))
        assert total["w"].tolist() == pytest.approx([0.1, 0.1], abs=1e-15)


def test_an_update_packed_and_unpacked_is_the_same() -> None:
    """What waits in State for a round comes back whole."""
    setup = ready(Method.of(Counts()), rounds=1)
    run, job, state = setup.run, setup.job, setup.state
    leg = Leg(np.array([5, 2, 6]), job.net.initial)
    update = run.engine.visit(
        job, leg, np.array([0, 2]), round_of(job, 0, leg.clients, {"counts": {}}, state.clients)
    )
    again = Update.unpacked(update.packed(), ["counts"])
    assert again.clients.tolist() == [5, 6]
    assert again.rows.tolist() == [0, 2]
    for name in ("base", "params", "moved"):
        assert params_hash(getattr(again, name)) == params_hash(getattr(update, name))
    assert again.uploads["counts"]["visits"].tolist() == [1, 1]
    assert again.memory["counts"]["visits"].tolist() == [1, 1]


def test_the_weights_of_fedavg_sum_to_one_or_to_nothing() -> None:
    setup = ready(Method(), tiny(sizes=[2, 6, 0]), rounds=1)
    run, job, state = setup.run, setup.job, setup.state
    leg = Leg(np.arange(3), job.net.initial)
    update = run.engine.visit(job, leg, np.arange(3), round_of(job, 0, leg.clients, {}, state.clients))
    assert FedAvg().weights(update).tolist() == [0.25, 0.75, 0]
    assert FedAvg(uniform=True).weights(update).tolist() == pytest.approx([1 / 3] * 3)
    assert FedAvg().weights(update.take(np.array([2]))).tolist() == [0]


def test_evaluation_says_what_each_number_is() -> None:
    """Accuracy over the test set, by class, and over clients where asked; rounds that are not judged say nothing."""
    ended = run(
        dataset=tiny(),
        rounds=4,
        cohort=4,
        evaluate=3,
        evaluate_clients=True,
        model="linear",
        progress=False,
    )
    judged = [line["round"] for line in ended.folder.lines if "global_test_accuracy" in line]
    assert judged == [3, 4]
    line = ended.folder.lines[-1]
    # ten test samples a class
    assert line["global_test_accuracy"] == pytest.approx(np.mean(line["per_class_accuracy"]))
    assert 0 <= line["worst_client_train_accuracy"] <= line["mean_client_train_accuracy"] <= 1


def test_a_class_without_test_samples_has_no_accuracy() -> None:
    federation = tiny()
    dataset = replace(federation.dataset, x_test=federation.dataset.x_test[:2], y_test=np.array([0, 1]))
    ended = run(
        dataset=replace(federation, dataset=dataset), rounds=1, cohort=4, model="linear", progress=False
    )
    assert ended.folder.lines[0]["per_class_accuracy"][2] is None


def test_a_data_set_without_test_samples_is_refused() -> None:
    federation = tiny()
    dataset = replace(federation.dataset, x_test=federation.dataset.x_test[:0], y_test=np.zeros(0, int))
    with pytest.raises(InputError, match="tiny has no test samples to judge a model by; hold some out"):
        set_up(Spec(cohort=4), replace(federation, dataset=dataset))
