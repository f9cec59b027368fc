"""Every setting is described once, and the lists of settings follow from that."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

import pytest

from unskew import InputError, Spec
from unskew.report.results.groups import DATA, WATCHING
from unskew.runs.describe import About, Setting, names
from unskew.runs.spec import FREE, MOVED


def test_every_setting_says_what_it_is_about() -> None:
    """And has a help text."""
    for field in fields(Spec):
        described = field.metadata["setting"]
        assert isinstance(described, Setting)
        assert described.help.endswith(".")
    about = [names(Spec, which) for which in get_args(About)]
    assert sorted(name for some in about for name in some) == sorted(f.name for f in fields(Spec))


def test_the_lists_are_asked_of_the_descriptions() -> None:
    """What makes a problem, what changes no number, what a resume may be given."""
    dealt = {
        "partition",
        "by",
        "clients",
        "fraction",
        "samples_per_client",
        "min_samples",
        "emd",
        "partition_seed",
    }
    held_out = {"client_test", "test_column", "validation", "validation_of"}
    assert set(DATA) == dealt | held_out | {
        "dataset",
        "label",
        "client",
        "features",
        "drop_columns",
        "impute",
    }
    watched = {"target", "metrics", "measure", "keep", "evaluate_clients", "checkpoint", "workers", "ray"}
    assert watched | {"seed", "data_folder"} == WATCHING
    assert MOVED == ("dataset", "partition")
    assert set(MOVED) < set(FREE)
    assert {"rounds", "device", "method_label"} < set(FREE)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"rounds": 0}, "rounds must be at least 1, not 0"),
        ({"lr": 0.0}, "lr must be above 0, not 0.0"),
        ({"steps": 2_000_000}, "steps must be at most 1e\\+06, not 2000000"),
        ({"fraction": 0.0}, "fraction is a share of the data above 0 and of at most 1, not 0.0"),
        ({"late": 1.5}, "late is a share of clients from 0 to 1, not 1.5"),
        ({"target": (0.5, 90)}, "target is an accuracy from 0 to 1, such as 0.9, not 90"),
        ({"keep": (2, 0)}, "keep names rounds, of which the first is 1, not 0"),
    ],
)
def test_bounds_are_part_of_the_description(given: dict[str, Any], sentence: str) -> None:
    """One value, or one of several."""
    with pytest.raises(InputError, match=sentence):
        Spec(**given)
