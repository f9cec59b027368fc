"""Clients with batch sizes of their own on the GPU's engine: no padding to the run's batch, and stages that last."""

from __future__ import annotations

import pytest

from by_hand import holding
from unskew.core.method import Method
from unskew.engines.gpu.fast import FastGPU
from unskew.testing.toy_federation import apart, normed, play, tiny

UNEQUAL = holding([[12, 3, 0], [0, 9, 1], [4, 4, 4], [0, 0, 30], [21, 0, 0], [0, 8, 8]])


def test_stages_of_tuned_batches_last() -> None:
    """Batches of at most 30/5 = 6 have room for 8, though the run's own is 64; a few stages serve twelve rounds."""
    method = Method.parse("dynamic(beta=5)")
    given = {"cohort": 2, "rounds": 12, "batch": 64}
    engine = FastGPU("cpu")
    found = play(method, UNEQUAL, engine=engine, **given)
    assert apart(play(method, UNEQUAL, **given).state.params, found.state.params) < 1e-9
    assert {room.batch for room in engine.rooms} <= {1, 2, 4, 8}
    assert len(engine.rooms) < 12


@pytest.mark.parametrize(
    "method", ["dynamic(beta=5)", "kld+oversample+dynamic(beta=5)", "phase_shift(2)+dynamic(beta=5)"]
)
def test_a_fresh_engine_changes_no_bit(method: str) -> None:
    """What an engine did before must not matter: after a kill it is another one. In float32, where padding shows."""
    parsed, held = Method.parse(method), tiny(sizes=(5, 13, 9, 24, 7, 2, 36, 8, 17, 30))
    given = {"cohort": 3, "rounds": 6, "batch": 8, "precision": "fp32", "model": normed}

    class Forgetful(FastGPU):
        """An engine that is closed before every leg."""

        def visit(self, *rest):  # type: ignore[no-untyped-def]
            self.close()
            return super().visit(*rest)

    one = play(parsed, held, engine=FastGPU("cpu"), **given)
    assert play(parsed, held, engine=Forgetful("cpu"), stopped=True, **given).hash == one.hash
