"""Data given in Python: settings that it overrules are refused, wherever they were written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unskew import InputError, Spec, resume, run, sweep
from unskew.runs.describe import names
from unskew.testing.toy_federation import tiny

QUICK: dict[str, Any] = {"rounds": 1, "cohort": 3, "model": "mlp(hidden=[4])", "progress": False}
DEALING = {
    "partition": "iid",
    "by": "site",
    "clients": 3,
    "fraction": 0.5,
    "samples_per_client": 4,
    "min_samples": 0,
    "emd": 0.5,
    "partition_seed": 5,
}


def test_the_table_has_every_setting_that_deals() -> None:
    """A new one is tried below too."""
    assert set(DEALING) == set(names(Spec, "dealing"))


@pytest.mark.parametrize("name", DEALING)
def test_a_federation_is_dealt_already(name: str) -> None:
    """Said by name or in a spec, it is refused and not ignored."""
    sentence = "a Federation is dealt to its clients already; leave {} out, or give its dataset"
    with pytest.raises(InputError, match=sentence.format(name)):
        run(dataset=tiny(), **{name: DEALING[name]}, **QUICK)
    settled = "partition" if name == "by" else name
    with pytest.raises(InputError, match=sentence.format(settled)):
        run(Spec(**{name: DEALING[name]}), dataset=tiny(), **QUICK)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"fit": "client"},
            "fit comes too late for data given in Python; give it to from_frame or from_clients",
        ),
        ({"features": ["a"]}, "features comes too late for data given in Python"),
        ({"impute": "drop"}, "impute comes too late for data given in Python"),
        ({"data_folder": "elsewhere"}, "data_folder comes too late for data given in Python; leave it out"),
    ],
)
def test_data_given_in_python_is_read_already(given: dict[str, Any], sentence: str) -> None:
    """Of a federation and of a data set, by name and in a spec."""
    for data in (tiny(), tiny().dataset):
        with pytest.raises(InputError, match=sentence):
            run(dataset=data, **given, **QUICK)
        with pytest.raises(InputError, match=sentence):
            run(Spec(**given), dataset=data, **QUICK)


def test_the_spec_of_a_run_on_a_federation_may_be_given_again() -> None:
    """It says that the data was given, and to how many clients, and that is so."""
    first = run(dataset=tiny(), **QUICK)
    assert (
        run(first.spec, dataset=tiny(), progress=False).result["model_sha256"] == first.result["model_sha256"]
    )
    with pytest.raises(InputError, match="leave clients out"):
        run(first.spec, dataset=tiny(sizes=[9, 9, 9]), progress=False)


def test_a_run_of_an_earlier_version_that_had_one_goes_on(tmp_path: Path) -> None:
    """Versions before ignored what a federation overrules, and wrote it down."""
    import json

    from unskew.sealed import seal, unseal

    out = tmp_path / "run"
    whole = run(dataset=tiny(), out=out, **QUICK | {"rounds": 2})
    about = unseal((out / "spec.json").read_bytes(), required=False)
    assert about is not None
    about["spec"]["partition_seed"] = 5
    (out / "spec.json").write_text(seal(json.loads(json.dumps(about)), indent=1))
    again = resume(out, dataset=tiny(), rounds=3, progress=False)
    assert again.folder.lines[:2] == whole.folder.lines[:2]


def test_a_spec_and_a_sweep_say_where_python_data_belongs(tmp_path: Path) -> None:
    """One sentence each, with what to write."""
    with pytest.raises(InputError, match="a data set's name or a path, not a Federation; give what was made"):
        Spec(dataset=tiny())  # type: ignore[arg-type]
    for grid, settings in (({"seed": "0-1"}, {"dataset": tiny()}), ({"dataset": [tiny()]}, {})):
        with pytest.raises(InputError, match=r"not a Federation; write a loop of unskew\.run"):
            sweep(grid, tmp_path / "sweep", **settings)  # type: ignore[arg-type]
    assert not (tmp_path / "sweep").exists()


def test_a_cohort_that_nobody_wrote_gives_way_to_the_data(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    """Ten by default, of four clients all; the folder says so, and a resume needs no word."""
    quick = {name: value for name, value in QUICK.items() if name != "cohort"}
    out = tmp_path / "run"
    played = run(dataset=tiny(sizes=[9, 9, 9, 9]), out=out, **quick)
    assert not [w for w in recwarn if "cohort" in str(w.message)]
    assert (played.spec.cohort, played.result["effective"]["cohort"]) == (4, 4)
    again = resume(out, dataset=tiny(sizes=[9, 9, 9, 9]), rounds=2, progress=False)
    assert again.spec.cohort == 4
    with pytest.raises(
        InputError, match="the cohort of 10 is larger than the 4 clients; write cohort = 4 or less"
    ):
        run(dataset=tiny(sizes=[9, 9, 9, 9]), cohort=10, **quick)
    with pytest.raises(InputError, match="the cohort of 10 is larger than the 4 clients"):
        run(Spec(cohort=10), dataset=tiny(sizes=[9, 9, 9, 9]), **quick)
