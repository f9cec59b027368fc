"""Numbers in prose are made of the results."""

from __future__ import annotations

from typing import Any

import pytest

from unskew.errors import InputError
from unskew.reproduce.prose import fill_numbers, number_of


def line(method: str, seed: int | None, **more: Any) -> dict[str, Any]:
    return {"exhibit": "seol-kim-case4", "group": "case4", "method": method, "seed": seed, **more}


ROW = {"method": "`daca(e_th=0.5, T_th=1)`", "seed": 0, "rounds to 80%": "13", "final": "97.67%"}
LINES: dict[str, list[dict[str, Any]]] = {
    "seol-kim-case4": [
        line("fedavg", 0, accuracy=[0.5, 0.7, 0.6], judged_every=5),
        line("fedavg", 1, accuracy=[0.6, 0.8, 0.8], judged_every=5),
        line("seol_kim", 0, accuracy=[0.6, 0.9, 0.8], judged_every=5),
        line("seol_kim", 1, accuracy=[0.6, 0.9, 0.9], judged_every=5),
        line("fednova", None, seeds=3, best={"mean": 71.25, "sd": 1.0}),
    ],
    "daca-figure3": [{"exhibit": "daca-figure3", "group": "", "method": "", "row": ROW}],
}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("seol-kim-case4/case4/fedavg best", 75),  # of 70 and 80
        ("seol-kim-case4/case4/fedavg best seed 1", 80),
        ("seol-kim-case4/case4/fedavg final", 70),
        ("seol-kim-case4/case4/fedavg round 10", 75),
        ("seol-kim-case4/case4/seol_kim gain best", 15),  # 20 and 10
        ("seol-kim-case4/case4/seol_kim paper gain", 21.1),
        ("seol-kim-case4/case4/fednova best", 71.25),  # a mean over seeds was all that was kept
        ("seol-kim-case4/case4/fednova best seeds 3", 71.25),
        ("daca-figure3/mnist/daca paper", 98.72),
        ("daca-figure3/daca(e_th=0.5, T_th=1)/0 rounds to 80%", 13),
        ("daca-figure3/daca(e_th=0.5, T_th=1) final", 97.67),
    ],
)
def test_a_source_gives_its_number(source: str, value: float) -> None:
    """Of runs by method and reading, of rows by the cells that a row begins with, of the paper."""
    assert number_of(source, LINES)[0] == pytest.approx(value)


def test_a_spread_is_made_with_its_number() -> None:
    """70 and 80 are sqrt(50) apart from their mean over n - 1; a mean brings its own; one seed has none."""
    page = "75.0 ± 0.00%<!-- = seol-kim-case4/case4/fedavg best -->"
    assert fill_numbers(page, LINES) == page.replace("0.00", "7.07")
    page = "1 ± 0<!-- = seol-kim-case4/case4/fednova best -->"
    assert fill_numbers(page, LINES) == page.replace("1 ± 0", "71 ± 1")
    with pytest.raises(InputError, match="has no spread"):
        fill_numbers("1 ± 0<!-- = seol-kim-case4/case4/fedavg best seed 0 -->", LINES)


def test_a_page_keeps_its_decimals_and_signs() -> None:
    """What is written wrong is made right; a number without a source stays."""
    page = (
        "It ends at 1.0%<!-- = seol-kim-case4/case4/fedavg final -->, gains 7 points<!-- = "
        "seol-kim-case4/case4/seol_kim gain best --> or -0.0<!-- = seol-kim-case4/case4/seol_kim gain best -->"
        ", and 3 of 4."
    )
    assert fill_numbers(page, LINES) == page.replace("1.0%", "70.0%").replace(
        "7 points", "15 points"
    ).replace("-0.0", "+15.0")


@pytest.mark.parametrize(
    "source",
    [
        "seol-kim-case4/case4/fedavg",
        "seol-kim-case4/case4/fedprox best",
        "seol-kim-case4/case4/fedavg round 7",
        "seol-kim-case4/case4/fedavg best seed 9",
        "daca-figure3/SCC final",
        "nothing/case4/fedavg best",
    ],
)
def test_a_source_that_gives_nothing_is_refused(source: str) -> None:
    """An exhibit, a method, a round or a row that is not there, and a path without a reading."""
    with pytest.raises(InputError, match=r"no line of results|there is no exhibit"):
        number_of(source, LINES)
