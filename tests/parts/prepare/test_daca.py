"""DACA by hand, on a graph of six nodes, and its baselines on the same graph.

Two classes; node: counts, EMD from p_g = (13, 11)/24, which is 2 |p_k(0) - 13/24|

    0: (2, 2)  1/12      1: (4, 0)  11/12     2: (0, 4)  13/12
    3: (4, 0)  11/12     4: (0, 4)  13/12     5: (3, 1)   5/12

Links, with how many samples each carries in a second: 0-1: 3, 0-2: 3, 0-4: 2, 5-2: 4, 5-3: 8.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from by_hand import holding, moved
from unskew.core.method import Method
from unskew.core.roster import Roster
from unskew.core.sharing import SERVER
from unskew.errors import InputError
from unskew.network import Wireless
from unskew.parts.prepare import Cec, CentralSharing, Daca, Scc
from unskew.parts.prepare.clustered import ALONE, after_sharing, heads_of, joined, system_emds
from unskew.testing.toy_federation import play

pytestmark = pytest.mark.filterwarnings("ignore:the thresholds of")

COUNTS = np.array([[2, 2], [4, 0], [0, 4], [4, 0], [0, 4], [3, 1]])
LINKS = {(0, 1): 3, (0, 2): 3, (0, 4): 2, (5, 2): 4, (5, 3): 8}
BITS = 10


def both_ways(values, size=6):
    table = np.zeros((size, size))
    for (i, j), value in values.items():
        table[i, j] = table[j, i] = value
    return table


RATES = BITS * both_ways(LINKS)
TRUST = both_ways(dict.fromkeys(LINKS, 0.6)) + np.eye(6)


def test_the_worked_graph():
    """In order of EMD: 0 covers 0, 1, 2, 4; 5 covers 5, 2, 3: all six, so these two are the heads.

    Node 2 is linked to both: D(2, 0) = |0 - 1/2| + |1 - 1/2| = 1, D(2, 5) = 3/4 + 3/4 = 1.5: it joins 5. Volumes:
    head 0 min(3, 2, n = 4) = 2 samples to 1 and 4; head 5 min(4, 8, n = 4) = 4 samples to 2 and 3.
    Delays: 2 x 10 bits at 20 a second = 1 s, 4 x 10 at 40 = 1 s.
    """
    found = Daca(e_th=0.5, T_th=1).clusters(COUNTS, TRUST, RATES, BITS)
    assert found.head.tolist() == [0, 0, 5, 5, 0, 5]
    assert found.heads.tolist() == [0, 5]
    assert found.members(0).tolist() == [1, 4]
    assert found.volume.tolist() == [2, 0, 0, 0, 0, 4]
    assert found.delay.tolist() == [1, 0, 0, 0, 0, 1]
    assert found.seconds == 1


def test_system_emd_printed_and_normalised():
    """After sharing 1: (5, 1), 2: (3, 5), 3: (7, 1), 4: (1, 5); n~ = 36 samples instead of n = 24.

    sum_k 2 |c_k(0) - n~_k 13/24| = 1/3 + 7/2 + 8/3 + 16/3 + 9/2 + 5/3 = 18, and before
    1/3 + 11/3 + 13/3 + 11/3 + 13/3 + 5/3 = 18 too: eq. 5 as printed stays at 18/24 = 0.75, although every member came
    closer; normalised it falls to 18/36 = 0.5.
    """
    after = after_sharing(COUNTS, Daca(T_th=1).clusters(COUNTS, TRUST, RATES, BITS))
    assert after.tolist() == [[2, 2], [5, 1], [3, 5], [7, 1], [1, 5], [3, 1]]
    assert system_emds(COUNTS, COUNTS) == (pytest.approx(0.75), pytest.approx(0.75))
    assert system_emds(after, COUNTS) == (pytest.approx(0.5), pytest.approx(0.75))


def test_joining_by_gain():
    """Node 2 with 3 samples of head 0: (1.5, 5.5)/7, 2 |3/14 - 13/24| = 0.655; with 4 of head 5: (3, 5)/8, 0.333."""
    apart = Daca(T_th=1, join="gain").clusters(COUNTS, TRUST, RATES, BITS)
    assert apart.head[2] == 5
    # one sample of head 5 leaves it at 2 |1/2 x 3/10 - 13/24| = 0.783: now head 0 gives more
    slower = RATES.copy()
    slower[5, 2] = slower[2, 5] = BITS
    assert Daca(T_th=1, join="gain").clusters(COUNTS, TRUST, slower, BITS).head[2] == 0
    assert Daca(T_th=1).clusters(COUNTS, TRUST, slower, BITS).head[2] == 5


def test_baselines_on_the_same_graph():
    """SCC: with trust 0.9 between 5 and 3, sums are 0: 1.8, 5: 1.5, so these are heads; 2 trusts both alike: the first.

    CEC: sums of rates are 5: 120, 0: 80, so 5 comes first; 2 is reached by 5 at 40 and by 0 at 30: it joins 5.
    """
    trust = TRUST + both_ways({(5, 3): 0.3})
    assert Scc(T_th=1).clusters(COUNTS, trust, RATES, BITS).head.tolist() == [0, 0, 0, 5, 0, 5]
    closer = trust + both_ways({(5, 2): 0.1})
    assert Scc(T_th=1).clusters(COUNTS, closer, RATES, BITS).head[2] == 5
    assert Cec(T_th=1).clusters(COUNTS, TRUST, RATES, BITS).head.tolist() == [0, 0, 5, 5, 0, 5]


def test_thresholds_cut_links_and_isolated_nodes_are_left():
    """Within half a second 2-0 and 1-0 carry 1 sample, 0-4 one, 5-3 four; by v_th = 35 only 5-2 and 5-3 are left."""
    found = Daca(T_th=1, v_th=35).clusters(COUNTS, TRUST, RATES, BITS)
    assert found.isolated.tolist() == [0, 1, 4]
    assert found.head.tolist() == [ALONE, ALONE, 5, 5, ALONE, 5]
    half = Daca(T_th=0.5).clusters(COUNTS, TRUST, RATES, BITS)
    assert half.volume.tolist() == [1, 0, 0, 0, 0, 2]
    assert Daca(T_th=1, volume=3).clusters(COUNTS, TRUST, RATES, BITS).volume.tolist() == [2, 0, 0, 0, 0, 3]
    nobody = Daca(e_th=0.7).clusters(COUNTS, TRUST, RATES, BITS)
    assert nobody.isolated.tolist() == list(range(6))
    assert not len(nobody.heads)


def test_a_cluster_whose_slowest_link_carries_nothing_is_reported(radio):
    """By v_th = 0 every trusted link counts, and 0-4 carries 20 bits a second: no sample of 10 in 0.4 s.

    So 0 sends nothing, and its members 1 and 4 get none; 5 sends 1 to 2 and 3 over 5-2, 40 bits a second.
    """
    found = Daca(T_th=0.4, v_th=0).clusters(COUNTS, TRUST, RATES, BITS)
    assert found.volume.tolist() == [0, 0, 0, 0, 0, 1]
    assert (found.empty_handed.tolist(), found.isolated.tolist()) == ([1, 4], [])
    assert found.links.tolist() == [3, 1, 2, 1, 1, 2]
    with pytest.warns(
        UserWarning, match="clients get nothing by daca, since the slowest link of their cluster"
    ):
        line = play(Method.of(Daca(T_th=1e-6, v_th=0)), FEDERATION, network=radio).lines[0]
    assert line["daca"]["empty_handed"]


def test_equal_nodes_go_by_links_then_by_number():
    """A star of equal ranks: its middle covers everything; two equal stars go in order of number."""
    star = np.zeros((4, 4), bool)
    star[2, [0, 1, 3]] = star[[0, 1, 3], 2] = True
    assert heads_of(star, np.zeros(4)) == [2]
    pairs = np.zeros((4, 4), bool)
    pairs[[0, 1, 2, 3], [1, 0, 3, 2]] = True
    assert heads_of(pairs, np.zeros(4)) == [0, 2]
    assert joined(pairs, [0, 2], np.zeros((4, 2))).tolist() == [0, 0, 2, 2]


@pytest.fixture
def radio(tmp_path):
    """The graph as files: 289 Hz and 0 dB, so that a gain of 2^s - 1 carries s samples of 289 bits a second."""
    gains = both_ways({link: 2.0**s - 1 for link, s in LINKS.items()})
    np.save(
        tmp_path / "gains.npy", np.pad(gains, (0, 1), constant_values=3.0)
    )  # base station: 2 samples a second
    np.save(tmp_path / "trust.npy", TRUST)
    files = f"gains='{tmp_path}/gains.npy', closeness='{tmp_path}/trust.npy'"
    return f"wireless(snr=0, bandwidth=289, fading=flat, {files})"


FEDERATION = holding(COUNTS.tolist())


def test_the_worked_graph_in_a_run(radio):
    """The first line of the log says the above, and who received how many from whom; 36 x 8 + 1 bits a sample."""
    lines = play(Method.of(Daca(T_th=1)), FEDERATION, network=radio, rounds=2).lines
    assert lines[0]["daca"] == {
        "clusters": 2,
        "members": 4,
        "isolated": [],
        "shared_samples": 12,
        "delay_s": 1.0,
        "emd_before": pytest.approx(0.75),
        "emd_after": pytest.approx(0.5),
        "emd_after_printed": pytest.approx(0.75),
    }
    assert lines[0]["shared"] == [
        {"part": "daca", "from": 0, "to": [1, 4], "samples": 2, "seconds": 1.0},
        {"part": "daca", "from": 5, "to": [2, 3], "samples": 4, "seconds": 1.0},
    ]
    assert lines[0]["bytes"]["peer"] == {"samples": 2 * -(-2 * 289 // 8) + 2 * -(-4 * 289 // 8)}
    assert lines[0]["bytes"]["up"]["label counts"] == 6 * 2 * 4
    assert lines[0]["air"]["samples"] == 1.0
    assert "daca" not in lines[1]
    assert "shared" not in lines[1]
    assert "samples" not in lines[1]["bytes"]["peer"]


def test_members_hold_their_heads_samples(radio):
    """Two of each class of head 0 go to 1 and 4, the same ones; heads and lists before stay as they were."""
    from dataclasses import replace

    from unskew.network import network_of

    before = replace(FEDERATION, network=network_of(radio))
    after = moved(Daca(T_th=1), before, 4, 0)
    assert after.roster.counts.tolist() == [[2, 2], [5, 1], [3, 5], [7, 1], [1, 5], [3, 1]]
    for k in range(6):
        assert after.samples(k)[:4].tolist() == before.samples(k).tolist()
    assert after.samples(1)[4:].tolist() == after.samples(4)[4:].tolist()
    assert set(after.samples(1)[4:]) <= set(before.samples(0))
    assert after.roster.weigh.tolist() == [4] * 6  # eq. 8 as printed
    assert after.roster.budget.tolist() == [4, 6, 8, 8, 6, 4]
    other = moved(Daca(T_th=1, weigh="held", budget="own"), before, 4, 0).roster
    assert other.weigh.tolist() == [4, 6, 8, 8, 6, 4]
    assert other.budget.tolist() == [4] * 6


def test_central_sharing_collects_and_distributes(radio):
    """beta = 0.5 of 24: 12 samples, 2 of each; collecting 2 at 2 a second takes 1 s, sending 12 takes 6 s."""
    lines = play(Method.of(CentralSharing(0.5)), FEDERATION, network=radio).lines
    told = lines[0]["central_sharing"]
    assert (told["collected"], told["collect_s"], told["distribute_s"]) == (12, 1.0, 6.0)
    assert told["shared_samples"] == 6 * 10  # each gets the 10 that it did not have
    assert told["emd_after"] < told["emd_before"] == pytest.approx(0.75)
    assert lines[0]["shared"][-1] == {
        "part": "central_sharing",
        "from": "server",
        "to": "all",
        "samples": 12,
        "seconds": 6.0,
    }
    assert lines[0]["air"]["samples"] == 7.0


def test_central_sharing_leaves_out_who_is_too_slow(tmp_path):
    """Client 3 has a gain of 1/4 to the base station, so log2(1.25) = 0.32 kbit a second instead of 1: it neither gives
    nor gets. 12 samples of the other 20 come from five clients; without v_th everybody would wait for client 3."""
    gains = np.ones((7, 7))
    gains[3, 6] = gains[6, 3] = 0.25
    np.save(tmp_path / "gains.npy", gains)
    network = Wireless(snr=0, fading="flat", bandwidth=1000, gains=str(tmp_path / "gains.npy"))
    federation = replace(FEDERATION, network=network)
    with pytest.warns(
        UserWarning, match="leaves out 1 of 6 clients, whose links to the base station are slower"
    ):
        after = moved(CentralSharing(0.5, v_th=500), federation, 4, 0).roster
    (sharing,) = after.sharing
    bits = federation.dataset.bits
    assert sharing.report["left_out"] == [3]
    assert (sharing.report["collected"], after.sizes[3]) == (12, 4)
    assert sharing.report["distribute_s"] == pytest.approx(12 * bits / 1000)
    waiting = moved(CentralSharing(0.5), federation, 4, 0).roster.sharing[0].report
    assert waiting["distribute_s"] == pytest.approx(12 * bits / 1000 / np.log2(1.25), abs=1e-6)


def test_the_volume_of_central_sharing_is_exact():
    """0.01 of 60,000 samples are 600, whoever gives them; each client once, and none of its own twice."""
    after = moved(CentralSharing(0.2), FEDERATION, 4, 0)
    (sharing,) = after.roster.sharing
    down = sharing.transfers[-1]
    assert down.sender == SERVER
    assert down.samples == round(0.2 * 24)
    for k in range(6):
        assert len(set(after.samples(k))) == after.roster.sizes[k]


def test_without_a_network_links_are_wireless_at_10_db():
    """The run's network where there is one, else the paper's middle condition."""
    given = Daca().plan(Roster.of(replace(FEDERATION, network=Wireless(snr=10))), 3)
    assert Daca().plan(Roster.of(FEDERATION), 3).head.tolist() == given.head.tolist()


def test_what_leaves_a_client_is_declared():
    """Raw samples, in every one of these."""
    for text in ("daca", "scc", "cec", "central_sharing", "fed_data"):
        assert any("raw samples" in what for what in Method.parse(text).discloses)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("daca(T_th=0)", "T_th of daca is a time above 0 seconds, not 0"),
        ("scc(T_th=-1)", "T_th of scc is a time above 0 seconds, not -1"),
        ("cec(e_th=1.5)", "e_th of cec is a closeness from 0 to 1, not 1.5"),
        ("daca(v_th=-1)", "v_th of daca is a rate of at least 0 bits a second, not -1"),
        ("daca(volume=0)", "volume of daca is at least 1 sample, not 0"),
        ("central_sharing(2)", "beta of central_sharing is a share of the data from 0 to 1, not 2"),
    ],
)
def test_bad_input_is_one_sentence(text, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as told:
        Method.parse(text)
    assert str(told.value) == sentence


def test_who_is_left_without_a_link_is_counted_in_a_warning():
    """Closeness drawn below 1 links nobody at e_th = 1."""
    federation = holding([[4, 0], [0, 4], [2, 2]])
    with pytest.warns(
        UserWarning, match=r"leave 3 of 3 clients without a link, .*; nothing is shared at all$"
    ):
        moved(Daca(e_th=1), federation, 3, 0)
