"""How the server steps beside other parts: what it is handed, and when."""

from __future__ import annotations

import pytest

from unskew.core.method import Method
from unskew.errors import InputError
from unskew.testing.toy_federation import apart, models, normed, play


def test_it_steps_along_what_objectives_make_of_the_change():
    """SCAFFOLD's eta and a server's eta both stretch the one change: 0.5 of one is 0.5 of the other."""
    own = play(Method.parse("scaffold(eta=0.5)"))
    servers = play(Method.parse("scaffold+server_sgd(eta=0.5)"))
    assert own.hash == servers.hash
    feddyn = play(Method.parse("feddyn+server_sgd(eta=0.5)"))
    assert feddyn.hash != play(Method.parse("feddyn")).hash


def test_a_momentum_of_fedfas_own_is_not_the_servers():
    """FedFA with gamma 0 and eta 0 is a weighted mean, which FedAvgM then carries on."""
    plain = play(Method.parse("fedfa(gamma=0, eta=0)"), rounds=1)
    carried = play(Method.parse("fedfa(gamma=0, eta=0)+fedavgm"), rounds=1)
    assert apart(models(plain.state), models(carried.state)) == 0
    two = [
        play(Method.parse(m), rounds=2) for m in ("fedfa(gamma=0, eta=0)", "fedfa(gamma=0, eta=0)+fedavgm")
    ]
    assert apart(models(two[0].state), models(two[1].state)) > 1e-4


@pytest.mark.parametrize("base", ["fednova", "sem", "phase_shift(2)", "scaffold+sem"])
@pytest.mark.parametrize("advance", ["fedavgm", "fedadam"])
def test_it_combines_and_resumes(base, advance):
    """Stopped after every round and read back, with clients lost and late, it ends in the same bits."""
    method = Method.parse(f"{base}+{advance}")
    faults = {"drop": 0.2, "late": 0.3}
    whole, stopped = play(method, **faults), play(method, stopped=True, **faults)
    assert whole.hash == stopped.hash
    assert whole.hash != play(Method.parse(base), **faults).hash


def test_statistics_are_taken_as_they_are():
    """Adam's step is for weights: running averages are those that FedAvg would have, after the same first round."""
    steps = [play(Method.parse(m), rounds=1, model=normed).state.params for m in ("fedavg", "fedadam")]
    measured = [k for k in steps[0] if "running" in k]
    assert measured
    for name in measured:
        assert steps[0][name].tolist() == steps[1][name].tolist()


def test_two_ways_to_step_are_refused():
    """One part decides, and where nothing is exchanged no server steps."""
    with pytest.raises(InputError, match="fedadam and fedyogi both decide 'advance'; keep one"):
        Method.parse("fedadam+fedyogi")
    with pytest.raises(
        InputError, match="local_only exchanges nothing, and fedadam steps with the global model"
    ):
        Method.parse("local_only+fedadam")
