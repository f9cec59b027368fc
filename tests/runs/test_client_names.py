"""Clients that are what they are: named by a column, taken as they come, and called by their names."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unskew.cli import main
from unskew.data import from_arrays
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.report import write_report
from unskew.runs.client_names import with_names, with_numbers
from unskew.runs.running import resume, run
from unskew.runs.spec import Spec
from unskew.testing.toy_federation import tiny

pytestmark = pytest.mark.usefixtures("quick_sweeps")

SITES = ("north ward", "south", "east")


@pytest.fixture
def visits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three sites of twenty patients, each with an illness of its own beside a common one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.normal() + 2 * ill:.3f},{rng.normal():.3f},ill{ill},{site}"
        for at, site in enumerate(SITES)
        for ill in rng.choice([at, 3], 40).tolist()
    ]
    Path("visits.csv").write_text("\n".join(["heat,age,illness,site", *rows]) + "\n")
    return "visits.csv"


def spec_of(folder: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(Path(folder, "spec.json").read_text())
    return told


# --- who holds what


@pytest.mark.parametrize("flags", [["--client", "site"], ["--by", "site"], ["--partition", "by(site)"]])
def test_a_column_of_clients_is_the_partition(visits: str, flags: list[str]) -> None:
    """However it is named, clients are the sites, and the column is no feature."""
    assert (
        main(["run", "--dataset", visits, "--label", "illness", *flags, "--rounds", "1", "--out", "run"]) == 0
    )
    told = spec_of("run")
    assert told["spec"]["partition"] == "by(site)"
    assert told["data"]["names"] == sorted(SITES)
    assert json.loads(Path("run/result.json").read_text())["effective"]["cohort"] == 3


def test_by_works_in_a_sweep_and_its_file(visits: str) -> None:
    """As a flag over the file, and as a setting in it."""
    Path("grid.toml").write_text(
        f'dataset = "{visits}"\nlabel = "illness"\nrounds = 1\ncohort = 2\n\n[sweep]\nseed = [0, 1]\n'
    )
    assert main(["sweep", "grid.toml", "--by", "site", "-o", "flagged", "-j", "1"]) == 0
    Path("own.toml").write_text('by = "site"\n' + Path("grid.toml").read_text())
    assert main(["sweep", "own.toml", "-o", "written", "-j", "1"]) == 0
    for folder in ("flagged", "written"):
        found = [spec_of(str(f.parent)) for f in Path(folder).rglob("spec.json")]
        assert [f["spec"]["partition"] for f in found] == ["by(site)"] * 2


def test_a_column_and_another_partition_contradict_each_other() -> None:
    """One sentence; said twice in the same words is said once."""
    with pytest.raises(
        InputError, match=r"^partition = iid and by = site both say who holds what; keep one$"
    ):
        Spec(partition="iid", by="site")
    assert Spec(partition="by(site)", by="site").partition == "by(site)"
    assert Spec(client="site", partition="dirichlet(0.1)").partition == "dirichlet(0.1)"


def test_a_partition_that_nobody_wrote_gives_way_later_too() -> None:
    """A spec made without a column, then told of one; and its file repeats what it became."""
    plain = Spec(dataset="digits")
    assert plain.partition == "dirichlet(0.1)"
    assert "partition" not in plain.changed()
    told = Spec.of(plain.as_dict() | {"client": "my site"})
    assert told.partition == Spec(by="my site").partition
    assert Spec.of(json.loads(json.dumps(told.as_dict()))) == told


def test_a_cohort_beyond_the_sites_is_all_of_them(visits: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With a note, where somebody wrote it; where clients are dealt it is a mistake."""
    words = ["run", "--dataset", visits, "--label", "illness", "--by", "site", "--rounds", "1"]
    assert main([*words, "--out", "q"]) == 0
    assert "cohort" not in capsys.readouterr().err
    assert main([*words, "--cohort", "10", "--out", "r"]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "a cohort of 10 is more than the 3 clients there are, so all of them take part every round" in told
    assert json.loads(Path("r/rounds.jsonl").read_text().splitlines()[0])["asked"] == 3
    dealt = ["run", "--dataset", "digits", "--clients", "3", "--rounds", "1"]
    assert main([*dealt, "--out", "t"]) == 0
    capsys.readouterr()
    assert main([*dealt, "--cohort", "10", "--out", "s"]) == 2
    assert "the cohort of 10 is larger than the 3 clients" in capsys.readouterr().err


# --- what they are called


def sites(names: tuple[str, ...] = SITES) -> Federation:
    held = tiny(sizes=[6] * len(names))
    return Federation(held.dataset, held.indices, held.offsets, names=names)


def faulty(path: Path, **settings: Any) -> Any:
    """A run in which updates come late and broken."""
    return run(
        dataset=sites(),
        rounds=6,
        cohort=3,
        lr=0.1,
        batch=4,
        late=0.4,
        nan=0.4,
        model="mlp(hidden=[4])",
        progress=False,
        out=path,
        **settings,
    )


def test_a_log_names_sites(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whose updates were refused or late, in the run's log and in Python's."""
    with caplog.at_level(logging.INFO, "unskew"):
        ended = faulty(tmp_path / "run", evaluate_clients=True)
    refused = {name for line in ended.folder.lines for name in line.get("rejected", [])}
    late = {name for line in ended.folder.lines for name in line.get("late", [])}
    assert refused
    assert late
    assert refused | late <= set(SITES)
    assert {line["worst_client"] for line in ended.folder.lines} <= set(SITES)
    assert re.search(r"refused, of clients [^\[]*(north ward|south|east)", caplog.text)
    assert not re.search(r"of clients \[?\d", caplog.text)


def test_a_report_names_sites(tmp_path: Path) -> None:
    """In its faults and on the axes of its pictures."""
    faulty(tmp_path / "run")
    write_report(tmp_path / "run", tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    named = re.search(r"Whose answers were rejected.*?</ul>", text, re.S)
    assert named
    assert re.search("north ward|south|east", named[0])
    assert not re.search(r"round \d+: \d", named[0])


def test_a_resumed_run_names_them_the_same(tmp_path: Path) -> None:
    """A log that goes on reads as one never stopped."""
    from unskew.progress import Silent

    class Stop(Silent):
        def advance(self, line: dict[str, Any]) -> None:
            if line["round"] == 3:
                raise KeyboardInterrupt

    whole = faulty(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(
            dataset=sites(), rounds=6, cohort=3, lr=0.1, batch=4, late=0.4, nan=0.4, model="mlp(hidden=[4])",
            progress=Stop(), out=tmp_path / "cut", checkpoint=0.0,
        )  # fmt: skip
    ended = resume(tmp_path / "cut", dataset=sites(), progress=False)
    for key in ("rejected", "late"):
        assert [li.get(key) for li in ended.folder.lines] == [li.get(key) for li in whole.folder.lines]


def test_names_and_numbers_are_each_others_inverse() -> None:
    """Also of a site that is called as what is no client, and of what parts say of clients."""
    names = ("server", "all", "east")
    line = {
        "round": 1,
        "rejected": [0, 2],
        "exchanged": {"flea": {"from": [1], "to": "all"}},
        "shared": [
            {"part": "daca", "from": 0, "to": [1, 2], "samples": 3},
            {"part": "x", "from": "server", "to": "all"},
        ],
        "daca": {"isolated": [2], "clusters": 1},
        "flea": {"shared": 5},
        "per_class_accuracy": [0.5, 1.0],
    }
    named = with_names(line, names)
    assert named["rejected"] == ["client server", "east"]
    assert named["shared"][0] | {} == {
        "part": "daca",
        "from": "client server",
        "to": ["client all", "east"],
        "samples": 3,
    }
    assert named["shared"][1]["from"] == "server"
    assert named["daca"]["isolated"] == ["east"]
    assert with_numbers(named, names) == line
    assert with_names(line, None) == line


def test_what_was_given_to_whom_is_counted_from_named_logs(tmp_path: Path) -> None:
    """FedMix's averages go from everybody to everybody: exposure 100%, named or not."""
    from unskew.privacy import attack

    run(
        dataset=sites(), method="fedmix(group=2)", rounds=2, cohort=3, model="mlp(hidden=[4])", progress=False,
        out=tmp_path / "run",
    )  # fmt: skip
    found = attack(tmp_path / "run", dataset=sites(), only=("exposure",))
    assert found.record["exposure"]["epsilon"][-1] == 1.0


def test_tables_pictures_and_json_name_sites(visits: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``partition`` and ``diagnose``: the counts by site, the axis of the picture, and a list for programs."""
    words = [visits, "by(site)", "--label", "illness"]
    assert main(["partition", *words, "--picture", "sites.svg"]) == 0
    shown = capsys.readouterr().out
    assert all(re.search(rf"^{site} +[\d·]", shown, re.M) for site in SITES)
    assert all(site in Path("sites.svg").read_text() for site in SITES)
    assert main(["diagnose", visits, "--label", "illness", "--by", "site", "--json", "-o", "d.html"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["client"] for one in told["per_client"]] == sorted(SITES)
    assert "irichlet" not in json.dumps({k: v for k, v in told.items() if k != "partition"})
    assert all(site in Path("d.html").read_text() for site in SITES)


def test_clients_on_their_own_are_listed_by_name() -> None:
    """A site finds itself in the result, and its model by its name."""
    ended = run(
        dataset=sites(), method="local_only", rounds=1, cohort=3, progress=False, model="mlp(hidden=[4])"
    )
    assert [one["client"] for one in ended.result["own_models"]["each"]] == list(SITES)
    assert ended.client_model("south") is not None
    with pytest.raises(InputError, match="there is no client 'west'"):
        ended.client_model("west")


def test_a_dataset_given_in_python_is_split_by_its_column() -> None:
    x, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
    data = from_arrays(x, y, columns={"site": np.repeat(["a", "b"], 20)})
    ended = run(dataset=data, by="site", rounds=1, progress=False)
    assert ended.job is not None
    assert ended.job.roster.names == ("a", "b")
