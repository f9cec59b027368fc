"""The bench: shapes, ratios and turns; never times."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.peers import adapter

from unskew.bench import JOBS, Options, bench, growth, growth_text, jobs_named, scaling, text
from unskew.bench import compare as comparing
from unskew.bench import peers as peering
from unskew.bench.compare import Score, row
from unskew.bench.jobs import CLASSES, StandardJob
from unskew.bench.peak import multiply_adds_a_second
from unskew.bench.peers import PeerFailed
from unskew.bench.table import meaning
from unskew.cli import main
from unskew.core.types import Ids
from unskew.errors import InputError, RunFailed
from unskew.models import MODELS, build

ROOT = Path(__file__).resolve().parents[2]
TINY = replace(JOBS["C"], clients=6, samples=7, cohort=3, epochs=2, batch=4)


class Fake:
    """A contender that notes its turns and takes whatever time it is given."""

    def __init__(self, name: str, turns: list[str], seconds: list[float]):
        self.name, self.about, self.turns, self.seconds = name, f"{name} itself", turns, seconds
        self.clients = np.array([2, 0])
        self.closed = False

    def round(self, clients: Ids | None) -> tuple[float, int]:
        self.turns.append(self.name)
        if not self.seconds:
            raise PeerFailed("gave up")
        return self.seconds.pop(0), 100

    def close(self) -> None:
        self.closed = True


def test_the_standard_jobs_are_those_of_the_design() -> None:
    """A: 100 x 100 samples, 10 a round; B and C: 1000 x 50, 100 a round; D: unequal, 100 on average."""
    assert [(j.clients, j.samples, j.cohort, j.epochs, j.batch) for j in JOBS.values()] == [
        (100, 100, 10, 5, 32),
        (1000, 50, 100, 5, 10),
        (1000, 50, 100, 5, 10),
        (100, 100, 10, 8, 8),
        (50, 100, 5, 10, 64),
    ]
    sizes = [MODELS[JOBS[name].model].size for name in "ABCD"]
    assert sizes == [545_098, 21_840, 159_010, 1_647_242]


def test_clients_of_d_are_unequal_and_hold_every_sample_once() -> None:
    """Dirichlet 0.1 over 100 clients: 10,000 samples in all, nobody empty, sizes far apart."""
    federation = replace(JOBS["D"], shape=(1, 2, 2)).federation()
    assert federation.sizes.sum() == 10_000
    assert np.array_equal(np.sort(federation.indices), np.arange(10_000))
    assert federation.sizes.min() >= 1
    assert federation.sizes.max() > 2 * federation.sizes.mean()


def test_made_up_images_are_seeded_bytes() -> None:
    """Images are uint8 of the job's shape, the same each time, and normalised to about mean 0 and deviation 1."""
    one, two = TINY.federation().dataset, replace(TINY).federation().dataset
    assert one.x.dtype == np.uint8
    assert one.x.shape == (42, 1, 28, 28)
    assert np.array_equal(one.x, two.x)
    scaled = (one.x - one.mean) / one.std
    assert abs(scaled.mean()) < 0.02
    assert abs(scaled.std() - 1) < 0.02


def test_jobs_are_named_by_letter() -> None:
    """``a,C`` are two jobs; an unknown or repeated letter is one sentence."""
    assert [job.name for job in jobs_named(["a,C"])] == ["A", "C"]
    with pytest.raises(InputError, match="there is no job 'Q'; write one of A, B, C, D, E"):
        jobs_named(["Q"])
    with pytest.raises(InputError, match="named twice"):
        jobs_named(["A", "a"])


def test_ratios_worked_by_hand() -> None:
    """Rates 500, 250, 1000 have median 500: 5 x the loop's 100, 2 x the better peer's 250, half of a peak of 1000."""
    ours = Score("fast", "engine", seconds=[0.2, 0.4, 0.1], samples=[100, 100, 100])
    loop = Score("loop", "engine", seconds=[1.0], samples=[100])
    peers = [
        Score("p", "peer", seconds=[0.4], samples=[100]),
        Score("q", "peer", seconds=[2.0], samples=[100]),
    ]
    found = row(ours, [loop, ours, *peers], peak=1000.0)
    assert found["samples_per_s"] == 500
    assert (found["slowest"], found["fastest"], found["seconds_per_round"]) == (250, 1000, 0.2)
    assert (found["to_loop"], found["to_best_peer"], found["of_peak"]) == (5, 2, 0.5)


def test_a_ratio_to_nobody_is_none() -> None:
    """Without the loop engine and without peers there is nothing to compare with."""
    alone = Score("fast", "engine", seconds=[0.5], samples=[100])
    found = row(alone, [alone], peak=1000.0)
    assert (found["to_loop"], found["to_best_peer"]) == (None, None)


def test_everyone_plays_a_round_before_anyone_plays_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns go loop, fast, plain, loop, ...; the first round (9 s here) is not counted; all are closed."""
    turns: list[str] = []
    made: list[Fake] = []

    def ready(name: str, job: StandardJob, options: Options) -> Fake:
        made.append(Fake(name, turns, [9.0, 1.0, 2.0]))
        return made[-1]

    monkeypatch.setattr(comparing.Ours, "ready", ready)
    monkeypatch.setattr(comparing.Peer, "ready", ready)
    monkeypatch.setattr(comparing, "multiply_adds_a_second", lambda *_: 1e9)
    report = bench(Options(jobs=[TINY], rounds=2, peers=["plain"], device="cpu"))
    assert turns == ["loop", "fast", "plain"] * 3
    assert [r["seconds_per_round"] for r in report["jobs"][0]["results"]] == [1.5, 1.5, 1.5]
    assert all(fake.closed for fake in made)


def test_a_peer_that_fails_leaves_the_others_going(monkeypatch: pytest.MonkeyPatch) -> None:
    """One peer is missing, another gives up in its second round: both say why, and our numbers are there."""
    turns: list[str] = []

    def peer(name: str, job: StandardJob, options: Options) -> Fake:
        if name == "flower":
            raise PeerFailed("not installed")
        return Fake(name, turns, [1.0])

    monkeypatch.setattr(
        comparing.Ours, "ready", lambda name, job, options: Fake(name, turns, [1.0, 1.0, 1.0])
    )
    monkeypatch.setattr(comparing.Peer, "ready", peer)
    monkeypatch.setattr(comparing, "multiply_adds_a_second", lambda *_: 1e9)
    options = Options(jobs=[TINY], engines=["fast"], rounds=2, peers=["flower", "pfl"], device="cpu")
    report = bench(options)
    assert [r.get("problem") for r in report["jobs"][0]["results"]] == [None, "not installed", "gave up"]
    assert report["jobs"][0]["results"][0]["to_best_peer"] is None
    assert "flower: not installed" in text(report)


@pytest.fixture
def known_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of a known rate: to measure it takes seconds, and a test of its own tries that."""
    monkeypatch.setattr(comparing, "multiply_adds_a_second", lambda *_: 1e9)


@pytest.mark.usefixtures("known_peak")
def test_engines_train_the_same_samples() -> None:
    """3 clients of 7 samples, 2 epochs: 42 sample-steps a round for both engines; ratios are to the loop."""
    report = bench(Options(jobs=[TINY], rounds=2, workers=1, device="cpu"))
    json.dumps(report)
    loop, fast = report["jobs"][0]["results"]
    assert [r["samples"] for r in loop["rounds"]] == [r["samples"] for r in fast["rounds"]] == [42, 42]
    assert loop["to_loop"] == 1
    assert fast["to_loop"] == pytest.approx(fast["samples_per_s"] / loop["samples_per_s"])
    peak = report["machine"]["peak_multiply_adds_per_s"] / (3 * (784 * 200 + 200 * 10))
    assert fast["of_peak"] == pytest.approx(fast["samples_per_s"] / peak)
    shown = text(report)
    assert "x loop" in shown
    assert "159,010 parameters" in shown


def test_a_job_without_its_model_is_listed() -> None:
    """A job whose model comes with a later version says so and takes no time."""
    later = replace(TINY, model="of_a_later_version")
    report = bench(Options(jobs=[later], device="cpu"))
    assert report["jobs"][0]["skipped"] == "model not in this version"
    assert "model not in this version" in text(report)


def test_a_job_that_fails_does_not_lose_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place in the report says why."""

    def broken(
        job: StandardJob, options: Options, scores: list[Score], peaks: list[float], tell: object
    ) -> None:
        peaks.append(1e9)
        if job.name == "A":
            raise RunFailed("no memory")
        scores[0].seconds, scores[0].samples = [1.0], [10]

    monkeypatch.setattr(comparing, "compare_job", broken)
    report = bench(Options(jobs=[JOBS["A"], TINY], engines=["fast"], device="cpu"))
    assert report["jobs"][0]["skipped"] == "failed: no memory"
    assert report["jobs"][1]["results"][0]["samples_per_s"] == 10


def test_a_table_is_said_in_a_line() -> None:
    """500 samples a second are 2 times the better library's 250; a plain loop is nobody's library."""
    scores = [
        Score("loop", "engine", seconds=[1.0], samples=[100]),
        Score("fast", "engine", seconds=[0.2], samples=[100]),
        Score("plain", "peer", seconds=[0.25], samples=[100]),
        Score("pfl", "peer", seconds=[0.4], samples=[100]),
        Score("fluke", "peer", seconds=[2.0], samples=[100]),
    ]

    def said(some: list[Score]) -> str:
        return meaning({"job": "C", "results": [row(s, some, 1000.0) for s in some]})

    fast = "C: fast trains 500 samples a second"
    assert said(scores) == f"{fast}, 2.0 times the fastest library here (pfl) and 5.0 times our loop engine"
    assert said(scores[:3]) == f"{fast}, 1.2 times a plain training loop and 5.0 times our loop engine"
    assert said(scores[1:2]) == fast
    assert meaning({"job": "C", "skipped": "failed"}) == ""


@pytest.mark.usefixtures("known_peak")
def test_whoever_stops_a_comparison_gets_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C in the second job: the first is shown already, and of the second the one counted round is there."""

    class Stopped(Fake):
        def round(self, clients: Ids | None) -> tuple[float, int]:
            if not self.seconds:
                raise KeyboardInterrupt
            return super().round(clients)

    monkeypatch.setattr(
        comparing.Ours,
        "ready",
        lambda name, job, options: Stopped(name, [], [1.0] * (3 if job is JOBS["C"] else 2)),
    )
    monkeypatch.setitem(JOBS, "C", TINY)
    words = ["bench", "C", "A", "B", "--engines", "fast", "--rounds", "2", "--device", "cpu"]
    assert main(words) == 130
    out = capsys.readouterr().out
    assert out.index("medians of 2 rounds") < out.index("C  dense") < out.index("A  small CNN")
    assert "B  two" not in out
    assert out.endswith("stopped in job A: this is all that was played by then\n")
    assert main([*words, "--json"]) == 130
    found = json.loads(capsys.readouterr().out)
    assert [len(job["results"][0]["rounds"]) for job in found["jobs"]] == [2, 1]


def test_the_peak_is_a_rate() -> None:
    """A matrix product of any size has one, in every arithmetic a CPU has."""
    for precision in ("fp32", "fp64"):
        assert multiply_adds_a_second(torch.device("cpu"), precision, side=32) > 0


@pytest.mark.parametrize("name", [n for n in adapter.MODELS if n in MODELS])
def test_peers_get_the_same_model(name: str) -> None:
    """With our weights in it, the plain restatement that peers train gives our logits."""
    shape = MODELS[name].native
    ours = build(name, shape, CLASSES, seed=3).eval()
    theirs = adapter.MODELS[name](shape, CLASSES).eval()
    own = [v for k, v in theirs.state_dict().items() if not k.endswith("num_batches_tracked")]
    given = [*ours.state_dict().values()]
    assert [v.shape for v in own] == [v.shape for v in given]
    with torch.no_grad():
        for mine, value in zip(own, given, strict=True):
            mine.copy_(value)
        x = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(theirs(x), ours(x))


def test_peers_have_the_model_of_fleas_code() -> None:
    """MobileNetV2 for 32x32 images has 2,296,922 parameters."""
    model = adapter.mobilenet_v2((3, 32, 32), 10)
    assert sum(p.numel() for p in model.parameters()) == 2_296_922
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)


@pytest.mark.usefixtures("known_peak")
def test_the_plain_peer_plays_in_a_process_of_its_own() -> None:
    """It trains the clients it is told to: 3 of 7 samples, twice; as the only peer it is the best one."""
    report = bench(Options(jobs=[TINY], engines=["loop"], rounds=1, peers=["plain"], device="cpu"))
    plain = report["jobs"][0]["results"][1]
    assert plain.get("problem") is None
    assert plain["rounds"][0]["samples"] == 42
    assert plain["to_best_peer"] == 1
    assert "thread" in plain["about"]


def test_a_peer_that_is_not_installed_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence names the command; outside a checkout it says that one is needed."""
    monkeypatch.setattr(peering, "source_tree", lambda: tmp_path)
    with pytest.raises(PeerFailed, match=r"`make \.venv-peers/pfl/\.ready` installs it"):
        peering.Peer.ready("pfl", TINY, Options(device="cpu"))
    monkeypatch.setattr(peering, "source_tree", lambda: None)
    with pytest.raises(PeerFailed, match="in a checkout"):
        peering.Peer.ready("plain", TINY, Options(device="cpu"))


def test_a_peer_that_breaks_quotes_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter that raises is reported with the last line it wrote, and leaves no folder behind."""
    unheard = replace(TINY, model="unheard_of")
    with pytest.raises(PeerFailed, match="stopped: KeyError: 'unheard_of'"):
        peering.Peer.ready("plain", unheard, Options(device="cpu"))


def test_options_are_checked_before_anything_starts() -> None:
    """Wrong names and what does not go together are one sentence each."""
    for settings, said in (
        ({"engines": ["fest"]}, "did you mean 'fast'"),
        ({"peers": ["flowr"]}, "did you mean 'flower'"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"engines": []}, "name at least one engine"),
        ({"precision": "bf16", "device": "cpu"}, "needs a GPU"),
        ({"compile": True, "device": "cpu"}, "compile needs a GPU"),
    ):
        with pytest.raises(InputError, match=said):
            Options(**settings)  # type: ignore[arg-type]


def test_growth_exponents_worked_by_hand() -> None:
    """Ten times the clients in ten times the time is linear; in the same time, 0; in 100 times, 2."""
    assert scaling.exponent([(10, 1.0), (30, 9.0), (100, 10.0)]) == pytest.approx(1)
    assert scaling.exponent([(10, 1.0), (100, 1.0)]) == 0
    assert scaling.exponent([(10, 1.0), (100, 100.0)]) == pytest.approx(2)
    assert scaling.exponent([(10, 1.0)]) is None


def test_growth_has_three_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """By clients a round, by clients there are, by clients that remember: every size has its row."""
    here = {"population": scaling.population, "memory": scaling.memory}
    monkeypatch.setattr(scaling, "run_alone", lambda what, **settings: here[what](**settings))
    found = growth(
        Options(jobs=[TINY], rounds=1, workers=1, device="cpu"),
        cohorts=(1, 3),
        populations=(20, 200),
        remembering=12,
        rounds_remembering=4,
    )
    json.dumps(found)
    assert [r["cohort"] for r in found["cohort"][0]["rows"]] == [1, 3]
    assert [r["samples"] for r in found["cohort"][0]["rows"]] == [7, 21]
    lists = [r["list_bytes"] for r in found["population"]["rows"]]
    # 10 places, 1 offset, and a size that is budget and weight as well: 12 whole numbers of 8 bytes a client
    assert lists == [20 * 12 * 8 + 8, 200 * 12 * 8 + 8]
    held = found["memory"]["rows"]
    assert [r["round"] for r in held] == [1, 2, 3, 4]
    assert held[0]["clients"] == 6
    assert held[0]["held_bytes"] == 6 * 7_850 * 4
    shown = growth_text(found)
    assert "Clients a round" in shown
    assert "SCAFFOLD, 12 clients, 6 a round" in shown
    assert "a round of 100 among 200 clients takes " in shown


def test_growth_that_is_stopped_keeps_the_rows_that_there_are(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C among the second size of the second table: the first table, and a row of the second, are shown."""
    monkeypatch.setitem(JOBS, "B", TINY)
    monkeypatch.setattr(scaling.growth, "__kwdefaults__", scaling.growth.__kwdefaults__ | {"cohorts": (1, 3)})

    def stopped(what: str, clients: int, **settings: Any) -> dict[str, Any]:
        if clients > 1_000:
            raise KeyboardInterrupt
        return {
            "clients": clients,
            "list_bytes": 0,
            "ready": 1,
            "seconds": 1,
            "peak_bytes": 1,
            "added_bytes": 0,
        }

    monkeypatch.setattr(scaling, "run_alone", stopped)
    words = ["bench", "--growth", "--rounds", "1", "--workers", "1", "--device", "cpu"]
    assert main(words) == 130
    shown = capsys.readouterr().out
    assert shown.count("Clients a round") == 1
    assert re.search(r"^ +1,000 +1\.000 ", shown, re.MULTILINE)
    assert "stopped: this is all that was measured by then" in shown
    assert main([*words, "--json"]) == 130
    found = json.loads(capsys.readouterr().out)
    assert [len(found["cohort"][0]["rows"]), len(found["population"]["rows"])] == [2, 1]
    assert "memory" not in found


@pytest.mark.usefixtures("known_peak")
def test_the_command_prints_a_table_or_one_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``unskew bench C`` ends in a table; with --json stdout is one JSON object."""
    monkeypatch.setitem(JOBS, "C", TINY)
    words = ["bench", "C", "--rounds", "1", "--workers", "1", "--device", "cpu"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "x best peer" in shown.out
    assert "C: warm-up" in shown.err
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert [r["name"] for r in found["jobs"][0]["results"]] == ["loop", "fast"]
    assert main(["bench", "Q"]) == 2
    assert "there is no job 'Q'" in capsys.readouterr().err


def test_the_bench_needs_torch_and_numpy_alone() -> None:
    """A GPU machine may have little else: with every other dependency gone, the bench can still be imported. And steps
    are recorded without torch's compiler, which takes a second and 150 MB to load."""
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    packages = {re.split(r"[^\w-]", d)[0] for d in dependencies} - {"torch", "numpy"}
    modules = {"scikit-learn": "sklearn", "pillow": "PIL", "vl-convert-python": "vl_convert"}
    gone = sorted(modules.get(package, package) for package in packages)
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({gone})); import unskew.bench.request, torch\n"
        "from unskew.engines.traced import trace; trace(lambda x: x + 1, [torch.ones(1)]).compiled()\n"
        "print([name for name in ('torch._dynamo', 'torch._inductor') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
