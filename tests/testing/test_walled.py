"""The walled engine: every client a process with its own samples, and a server that holds none."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from by_hand import holding
from unskew.core.held import BEFORE, OWN
from unskew.core.method import Method
from unskew.core.questions import Query, find_answerer
from unskew.core.roster import Roster
from unskew.core.round import play_round
from unskew.core.slots import Exchange, Prepare, Select
from unskew.core.types import Cohort
from unskew.errors import InputError
from unskew.privacy.inversion import Prey
from unskew.runs.correlation import Shown
from unskew.runs.measure import Minimum, centralized_twin, correlation_watch, divergence, gamma
from unskew.testing import Walled, check_part
from unskew.testing.toy_federation import apart, ready, tiny

SKEWED = [[14, 1, 1], [1, 9, 2], [2, 1, 13], [6, 5, 5], [3, 8, 1]]


@pytest.fixture
def walled() -> Any:
    """Make runs whose clients are behind walls; their processes end with the test."""
    engines = []

    def made(method: str, federation: Any = None, **settings: Any) -> Any:
        parsed = Method.parse(method)
        engine = Walled(parsed, clients=8 if federation is None else federation.clients)
        engines.append(engine)
        return ready(parsed, federation, engine=engine, **settings)

    yield made
    for engine in engines:
        engine.close()


def test_no_sample_is_left_at_the_server(walled: Any) -> None:
    """The roster's data set has a test set and no pool; a data set that somebody keeps is noticed at the next verb, and
    so is a copy that has its arrays, or a piece of one of them."""
    setup = walled("fedavg")
    play_round(setup.run, setup.state)
    assert len(setup.job.roster.dataset) == 0
    assert len(setup.job.roster.dataset.y_test) == 30
    keeps: list[Any] = [
        lambda d: d,
        lambda d: replace(d, name="copy"),
        lambda d: d.x[2:4],
        lambda d: d.y[::2],
    ]
    for keep in keeps:
        data = tiny(sizes=(5, 3))
        kept = keep(data.dataset)
        setup = walled("fedavg", data)
        del data
        with pytest.raises(AssertionError, match="still in the server's process: somebody kept them"):
            play_round(setup.run, setup.state)
        del kept
        play_round(setup.run, setup.state)


def test_a_client_holds_its_own_samples_and_nothing_else(walled: Any) -> None:
    """Five of the first client's, three of the second's: behind each wall lies as much as is dealt to it."""
    setup = walled("fedavg")
    found = [wall.ask("give", None, 0, 0) for wall in setup.run.engine._walls]
    assert [len(pickle.loads(sealed).y) for sealed in found] == setup.job.roster.sizes.tolist()


@dataclass(frozen=True)
class Asking(Exchange):
    """Asks client 3 a question each round, and remembers the answer."""

    discloses: ClassVar[tuple[str, ...]] = ("something of others",)
    questions: ClassVar[tuple[str, ...]] = ("told",)

    def renew(self, memory: Any, after: Any) -> Any:
        (found,) = after.query(self, "told", [3])
        return {"seen": found["seen"]}


@dataclass(frozen=True)
class Peeping(Asking):
    """Answers from the sample before its own, which is another client's, by the pool behind the curtain."""

    name: ClassVar[str] = "peeping"

    def told(self, client: Any) -> Any:
        return {"seen": torch.tensor(client.held._pool.x[client.held.places.min() - 1])}


@dataclass(frozen=True)
class Reaching(Asking):
    """Answers from the whole data set, of which a client has none."""

    name: ClassVar[str] = "reaching"

    def told(self, client: Any) -> Any:
        return {"seen": torch.tensor(client.held.dataset.x[client.held.places.min() - 1])}


@dataclass(frozen=True)
class Counting(Asking):
    """Answers with how much everybody holds."""

    name: ClassVar[str] = "counting"

    def told(self, client: Any) -> Any:
        return {"seen": torch.tensor(client.job.roster.sizes.sum())}


@dataclass(frozen=True)
class Shifting(Prepare):
    """Trains a client on the places before its own."""

    name: ClassVar[str] = "shifting"

    def view(self, held: Any, t: Any, seed: int, **told: float) -> Any:
        return replace(held, places=np.maximum(held.places - 3, 0))


@dataclass(frozen=True)
class Hoarding(Select):
    """Chooses by the samples themselves, which a server does not have."""

    name: ClassVar[str] = "hoarding"

    def select(self, count: int, exclude: Any, roster: Any, memory: Any, rng: Any) -> Any:
        bright = [roster.dataset.x[roster.samples(k)].mean() for k in range(roster.clients)]
        return Cohort(np.setdiff1d(np.argsort(bright), exclude)[:count]), memory


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (
            Peeping(),
            "peeping remembers another peeping/seen of the server where every client is behind a wall",
        ),
        (Reaching(), "reaching cannot play with what the server knows and each client has alone: IndexError"),
        (Counting(), "counting cannot play with .* 'ClientView' object has no attribute 'job'"),
        (Shifting(), "shifting differs by .* where every client is behind a wall"),
        (Hoarding(), "hoarding cannot play with .* 'Roster' object has no attribute 'samples'"),
    ],
)
def test_who_reads_beyond_the_seam_is_found_out(part: Any, sentence: str) -> None:
    """Another client's samples, or how much others hold, reach neither a client nor the server: the battery says so."""
    with pytest.raises(AssertionError, match=sentence):
        check_part(part, only=["walled"])


COMBINED = [
    "fedaug(0.4)+fedfa",
    "fedaug(0.4, redraw=once)+scaffold(option=1)",
    "fed_data(0.5)+fedaug(0.3)",
    "seol_kim",
]


@pytest.mark.parametrize("method", COMBINED)
def test_combinations_agree_behind_walls(walled: Any, method: str) -> None:
    """Views, transfers, probes and questions together, bytes included; there are rare classes to fill up."""
    lines, models = [], []
    for setup in (ready(Method.parse(method), holding(SKEWED)), walled(method, holding(SKEWED))):
        state = setup.state
        for _ in range(2):
            state, line = play_round(setup.run, state)
            lines.append((line["bytes"], line["samples_used"]))
        models.append(state.params)
    assert apart(*models) < 1e-9
    assert lines[:2] == lines[2:]


def test_measurements_need_the_verbs_alone(walled: Any) -> None:
    """Gamma, divergence and the correlation of what is shared, on engines of either kind."""
    method = "flea(last, share=0.5)"
    found = []
    for setup in (ready(Method.parse(method)), walled(method)):
        run, model = setup.run, dict(setup.job.net.initial)
        twin = centralized_twin(run)
        state, _ = play_round(run, setup.state)
        apart_by, _ = divergence(twin, state, model)
        shared = correlation_watch(run)(model)["flea"]
        found.append([gamma(run, model, steps=3)["gamma"], apart_by, shared])
        twin.engine.close()
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_what_crosses_can_be_pickled_and_names_a_question() -> None:
    """A question is a part's name, the question's and its values; without the name it is refused."""
    query = Query("flea", "features", {"layer": "dense1", "seed": 1})
    assert pickle.loads(pickle.dumps(query)) == query
    setup = ready(Method.parse("flea(dense1, share=0.5)"))
    engine, job = setup.run.engine, setup.job
    (answer,) = engine.query(job, query, np.array([2]), dict(job.net.initial), BEFORE)
    assert len(answer["rows"]) == 9 // 2
    with pytest.raises(TypeError, match="flea has no question 'penalty'"):
        next(engine.query(job, Query("flea", "penalty"), np.array([2]), {}, BEFORE))


def test_a_fresh_process_finds_whoever_answers() -> None:
    """Measurements and the laboratory are no parts: their questions carry where they are found, and nothing else is
    imported for it."""
    names = [Minimum.name, Shown.name, Prey.name]
    code = (
        "import sys; from unskew.core.questions import find_answerer; "
        "print([find_answerer(name, ()).questions[0] for name in sys.argv[1:]])"
    )
    told = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "['minimum', 'shown', 'samples']"
    assert find_answerer("gamma", ()) is None


def test_the_start_is_asked_once_and_counted_once() -> None:
    """FedMix: one question to each client, before the first round and never again."""
    setup = ready(Method.parse("fedmix(group=2)"))
    asked: list[int] = []
    real = setup.run.engine.query

    def watched(job: Any, query: Query, clients: Any, *rest: Any) -> Any:
        asked.extend(clients.tolist())
        return real(job, query, clients, *rest)

    setup.run.engine.query = watched  # type: ignore[method-assign]
    state, line = play_round(setup.run, setup.state)
    state, later = play_round(setup.run, state)
    assert asked == list(range(8))
    assert "fedmix at the start" in line["bytes"]["up"]
    assert "fedmix at the start" not in later["bytes"]["up"]


# --- what the server knows


def test_a_part_that_needs_label_counts_and_has_none_is_told_so() -> None:
    """In one sentence, before the first round; parts that do without them are set up and play."""
    for method in ("kld", "daca", "sem(pairing=emd)"):
        with pytest.raises(
            InputError, match="label counts were not given; give them, or choose another method"
        ):
            ready(Method.parse(method), holding(SKEWED), counts=False)
    for method in ("fedavg", "fedaug(0.4)", "oversample", "phase_shift(2)", "sem", "balanced(counts=global)"):
        setup = ready(Method.parse(method), holding(SKEWED), counts=False)
        assert setup.skew == {}
        _, line = play_round(setup.run, setup.state)
        assert line["answered"]


def test_a_roster_is_what_a_federation_is_without_samples() -> None:
    """The same numbers, no way to a sample; one client is told its own row of it."""
    federation = tiny()
    roster = Roster.of(federation)
    for name in ("sizes", "budget", "weigh", "counts", "typical", "clients"):
        assert np.array_equal(getattr(roster, name), getattr(federation, name))
    assert not any(hasattr(roster, name) for name in ("indices", "offsets", "samples"))
    assert len(roster.dataset) == 0
    assert roster.dataset.bits == federation.dataset.bits
    alone = roster.only(2)
    assert alone.sizes.tolist() == [0, 0, 9, 0, 0, 0, 0, 0]
    assert alone.relative(2) == roster.relative(2)
    assert not alone.counted
    assert len(alone.dataset.y_test) == 0


# --- what a round costs


@pytest.mark.parametrize("method", ["fedaug(0.4)", "oversample"])
def test_a_view_is_made_for_those_who_are_visited_and_for_nobody_else(method: str, monkeypatch: Any) -> None:
    """Of 300 clients four train: four views, and the pool is the one that was dealt."""
    setup = ready(Method.parse(method), holding(SKEWED * 60), cohort=4)
    pool, made = setup.run.engine.holdings.dataset, []
    part = type(setup.job.method.prepare[0])
    real = part.view

    def counted(self: Any, held: Any, *rest: Any, **told: Any) -> Any:
        made.append(held.client)
        return real(self, held, *rest, **told)

    monkeypatch.setattr(part, "view", counted)
    play_round(setup.run, setup.state)
    assert len(made) == 4
    assert setup.run.engine.holdings.dataset is pool


def test_sums_of_each_client_come_back() -> None:
    """On its own data or with what it was sent: as many samples as it holds then, and none of others."""
    setup = ready(Method.parse("fed_data(0.5)"))
    engine, job = setup.run.engine, setup.job
    model, clients = dict(job.net.initial), np.array([4, 1])
    own, with_gifts = (engine.evaluate(job, model, clients, moment) for moment in (OWN, BEFORE))
    assert own.count.tolist() == [7, 3]
    assert with_gifts.count.tolist() == job.roster.sizes[clients].tolist()
    assert engine.evaluate(job, model).truths.tolist() == [[10, 10, 10]]
