"""Clients have names where the data names them, and numbers elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import unskew
from by_hand import moved
from unskew.core.method import Method
from unskew.data.dataset import Dataset
from unskew.data.partition import Partition, partition
from unskew.errors import InputError

SITES = np.array(["north", "south", "north", "east", "south", "east"] * 4)


def hospitals() -> Dataset:
    x = np.arange(48, dtype=np.float32).reshape(24, 2)
    y = np.arange(24) % 2
    return Dataset("hospitals", x, y, x[:6], y[:6], ("ill", "well"), kind="vector", columns={"site": SITES})


def test_clients_of_a_column_are_called_by_its_values() -> None:
    """by(site) gives three clients in sorted order, each with the site's name."""
    part = partition(hospitals(), "by(site)")
    assert part.names == ("east", "north", "south")
    federation = part.federation(hospitals())
    assert federation.names == part.names
    assert [federation.name_of(k) for k in range(3)] == ["east", "north", "south"]


def test_clients_that_were_made_up_are_called_by_their_numbers() -> None:
    """A partition that deals samples out has no names, and name_of gives the number as a word."""
    federation = partition(hospitals(), "iid", 3).federation(hospitals())
    assert federation.names is None
    assert federation.name_of(2) == "2"


def test_names_are_saved_with_the_partition_and_old_files_still_load(tmp_path: Path) -> None:
    """A saved partition brings its names back; one written without any has numbers."""
    part = partition(hospitals(), "by(site)")
    assert Partition.load(part.save(tmp_path / "new.npz")).name_of(1) == "north"
    old = {k: v for k, v in part.record.items() if k != "names"}
    saved = Partition(part.indices, part.offsets, part.counts, old).save(tmp_path / "old.npz")
    assert Partition.load(saved).name_of(1) == "1"


def test_names_that_do_not_fit_the_clients_are_refused(tmp_path: Path) -> None:
    """Two names for three clients are a damaged file, or a federation made wrongly."""
    part = partition(hospitals(), "by(site)")
    part.record["names"] = ["north", "south"]
    with pytest.raises(InputError, match="the names of its clients do not fit them"):
        Partition.load(part.save(tmp_path / "damaged.npz"))
    with pytest.raises(InputError, match="a federation of 3 clients needs as many names, not 2"):
        part.federation(hospitals())


def test_a_run_folder_tells_the_names_without_the_data(tmp_path: Path) -> None:
    """spec.json holds the names under data, so that a report needs no data set; a pooled run has one client."""
    for method in ("fedavg", "pooled"):
        unskew.run(
            dataset=hospitals(), partition="by(site)", cohort=2, rounds=1, method=method, out=tmp_path / method,
            progress=False,
        )  # fmt: skip
        about = json.loads((tmp_path / method / "spec.json").read_text())["data"]
        assert about["names"] == ["east", "north", "south"]
    federation = partition(hospitals(), "by(site)").federation(hospitals())
    pooled = moved(Method.parse("pooled").prepare[0], federation, 2, 0).roster
    assert pooled.name_of(0) == "all clients"


def test_a_name_is_shown_in_one_line() -> None:
    """Line breaks of a column's values do not break a table, and an empty value is still a client."""
    columns = {"site": np.array(["a\nb", ""] * 12)}
    data = hospitals()
    odd = Dataset(
        "odd", data.x, data.y, data.x_test, data.y_test, data.labels, kind="vector", columns=columns
    )
    part = partition(odd, "by(site)")
    assert [part.name_of(k) for k in range(2)] == ["(no name)", "a b"]
