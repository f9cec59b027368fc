"""Seconds on the air, by hand: a flat channel of 1 bit a second and hertz makes them plain division."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unskew.cli import main
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.runs.running import resume, run
from unskew.runs.spec import Spec
from unskew.testing.toy_federation import play, tiny

FLAT = "wireless(snr=0, fading=flat, bandwidth=1000)"  # log2(1 + 1) = 1: a kilobit a second over any link


def lines(method, network=FLAT, **settings):
    return play(Method.parse(method), network=network, **settings).lines


def model_bytes(line, clients=4):
    return line["bytes"]["down"]["model"] / clients


def test_a_plain_round_is_one_model_down_and_one_up():
    """Everybody has a band of their own: 8 x model / 1000 seconds down, as many up, whatever the cohort."""
    line = lines("fedavg")[0]
    one = 8 * model_bytes(line) / 1000
    assert line["air"] == {"down": pytest.approx(one), "up": pytest.approx(one)}
    assert line["air_s"] == pytest.approx(2 * one)
    alone = lines("fedavg", cohort=1)[0]
    assert alone["air_s"] == line["air_s"]


def test_what_parts_send_along_takes_its_time():
    """SCAFFOLD sends as much again, both ways."""
    plain, more = lines("fedavg")[0], lines("scaffold")[0]
    assert more["air_s"] == pytest.approx(2 * plain["air_s"])


def test_a_model_handed_over_is_on_the_air_between_clients():
    """SEM: one down, one to the partner, one up; by the server's relay one more up and down instead."""
    one = lines("fedavg")[0]["air"]["down"]
    assert lines("sem")[0]["air"] == {k: pytest.approx(one) for k in ("down", "peer", "up")}
    relayed = lines("sem(via=relay)")[0]["air"]
    assert relayed == {"down": pytest.approx(2 * one), "up": pytest.approx(2 * one)}


def test_clients_without_a_link_hand_over_by_way_of_the_base_station(tmp_path):
    """A gain of 0 between two clients: up to the base station and down again, twice as long as a link of gain 1."""
    gains = np.ones((3, 3))
    gains[0, 1] = gains[1, 0] = 0
    np.save(tmp_path / "gains.npy", gains)
    network = f"wireless(snr=0, fading=flat, bandwidth=1000, gains='{tmp_path}/gains.npy')"
    line = play(Method.parse("sem"), tiny(sizes=[4, 4]), network=network).lines[0]
    assert line["air"]["peer"] == pytest.approx(2 * line["air"]["down"])


def test_the_slowest_client_sets_the_pace(tmp_path):
    """Clients 0 and 1 with gains 1 and 3 to the base station: at 1 and 2 bits a hertz the first is waited for."""
    gains = np.ones((3, 3))
    gains[1, 2] = gains[2, 1] = 3
    np.save(tmp_path / "gains.npy", gains)
    network = f"wireless(snr=0, fading=flat, bandwidth=1000, gains='{tmp_path}/gains.npy')"
    federation = tiny(sizes=[4, 4])
    both = play(Method(), federation, network=network).lines[0]
    assert both["air"]["down"] == pytest.approx(8 * model_bytes(both, 2) / 1000)
    rounds = play(Method(), federation, network=network, cohort=1, rounds=12).lines
    paces = {round(line["air"]["down"] / both["air"]["down"], 3) for line in rounds}
    assert paces == {1.0, 0.5}


def test_what_clients_are_asked_for_calibration_is_on_the_air():
    """CCVR asks all 8 clients at the end, each alone in its band: a model down, and the largest answer up.

    A class of the 36 features is 8 bytes for each mean and each of the 36 x 37 / 2 products, and 5 for its number
    and its count: the clients with most classes, two, are waited for.
    """
    line = lines("ccvr(virtual=4)", model="linear")[-1]
    plain = lines("fedavg", model="linear")[-1]
    model, answer = model_bytes(line), 2 * (8 * 36 + 8 * 36 * 37 // 2 + 5)
    assert line["air"]["calibrate"] == pytest.approx(8 * (model + answer) / 1000)
    assert line["air_s"] == pytest.approx(plain["air_s"] + line["air"]["calibrate"])


def test_what_clients_send_before_round_0_is_on_the_air_by_whoever_sends_it():
    """Groups of 2 of 5, 3, 9, ...: the client of 9 has most averages: 4 of 36 + 3 numbers of 8 bytes."""
    first, second = lines("fedmix(group=2)", cohort=8)[:2]
    assert first["air"]["up"] - second["air"]["up"] == pytest.approx(8 * 4 * 39 * 8 / 1000)


def test_bytes_of_no_leg_are_spread_over_the_cohort():
    """40 bytes counted beside the legs, over 4 clients at a kilobit a second: 80 bits each, 0.08 s."""
    from unskew.core.air import Air
    from unskew.network import network_of

    air = Air(network_of(FLAT), 8, 0, 0)
    air.down(np.arange(4), 100.0)
    told = air.line(np.arange(4), 400 + 40, 0)
    assert told["air"] == {"down": pytest.approx(0.8 + 0.08)}


def test_a_measured_round_replaces_what_is_worked_out():
    """DACA's 0.7 s a round; sharing before round 0 comes on top."""
    told = lines("fedavg", "wireless(round=0.7)")
    assert [line["air_s"] for line in told] == [0.7, 0.7, 0.7]
    shared = lines("fed_data(0.5)", "wireless(round=0.7)")
    assert shared[0]["air"]["round"] == 0.7
    assert shared[0]["air"]["samples"] > 0
    assert shared[1]["air"] == {"round": 0.7}


def test_raw_samples_are_on_the_air_before_round_0():
    """fed_data(0.5) of 5, 3, 9, 4, 7, 2, 6, 8: 2 1 4 2 3 1 3 4 = 20 samples of 36 x 8 + 2 bits.

    The slowest upload is 4 samples, the multicast all 20: 24 x 290 bits at a kilobit a second.
    """
    line = lines("fed_data(0.5)")[0]
    assert line["air"]["samples"] == pytest.approx(24 * 290 / 1000)
    assert line["bytes"]["up"]["samples"] == sum(-(-n * 290 // 8) for n in (2, 1, 4, 2, 3, 1, 3, 4))
    assert line["bytes"]["down"]["samples"] == 8 * (20 * 290 // 8)


def test_a_network_changes_no_bit_of_the_model():
    """It only counts; without one there is no word of air in the log; pooled data is not timed."""
    assert play(Method(), network=FLAT).hash == play(Method()).hash
    assert "air_s" not in play(Method()).lines[0]
    assert "air_s" not in lines("centralized")[0]


def test_a_run_keeps_its_network_and_its_totals(tmp_path, capsys, monkeypatch):
    """The spec, the log, the result and the screen say it; files become whole paths."""
    monkeypatch.chdir(tmp_path)
    np.save("trust.npy", np.eye(6))
    spec = Spec(network="wireless(closeness=trust.npy)")
    assert spec.network == f'wireless(closeness="{tmp_path / "trust.npy"}")'
    small = ["--clients", "6", "--cohort", "3", "--rounds", "2", "--out", "one"]
    assert main(["run", "--network", "wireless(snr=-5, closeness=trust.npy)", *small]) == 0
    assert "s on the air" in capsys.readouterr().out
    log = [json.loads(text) for text in (tmp_path / "one/rounds.jsonl").read_text().splitlines()]
    result = json.loads((tmp_path / "one/result.json").read_text())
    assert result["totals"]["air_s"] == pytest.approx(sum(line["air_s"] for line in log))
    monkeypatch.chdir("/")
    del result["checksum"]  # of the file, which reading it takes off
    assert resume(tmp_path / "one").result == result


def test_bad_networks_are_refused_before_anything_is_written(tmp_path, capsys):
    """Exit code 2 and a sentence; no folder."""
    out = tmp_path / "run"
    assert main(["run", "--network", "wireless(snr=1000)", "--out", str(out)]) == 2
    assert "snr of wireless is in decibels" in capsys.readouterr().err
    np.save(tmp_path / "trust.npy", np.eye(3))
    with pytest.raises(InputError, match="closeness must be a matrix of 6 x 6 numbers"):
        run(clients=6, network=f"wireless(closeness='{tmp_path}/trust.npy')", out=out, progress=False)
    gains = np.ones((7, 7))
    np.save(tmp_path / "gains.npy", gains[:6, :6])
    network = f"wireless(gains='{tmp_path}/gains.npy')"
    with pytest.raises(InputError, match="add a last row and column for the base station"):
        run(clients=6, network=network, out=out, progress=False)
    gains[6, 2] = gains[2, 6] = 0
    np.save(tmp_path / "gains.npy", gains)
    with pytest.raises(InputError, match="between client 2 and the base station is 0"):
        run(clients=6, network=network, out=out, progress=False)
    assert not out.exists()
