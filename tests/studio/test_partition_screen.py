"""The partition explorer in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unskew.data.partition import Partition
from waiting import until

SETTLED = "#found[aria-busy='false'] #matrix[data-drawn='true'] svg:visible"


@pytest.fixture
def explorer(open_studio: Callable[..., Any], look: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    def opened(**more: Any) -> Any:
        found = look(open_studio(tmp_path), **more)
        found.open("/partition")
        found.page.wait_for_selector(SETTLED)
        return found

    return opened


def test_a_slider_by_keys_changes_what_is_seen(explorer: Callable[..., Any], tmp_path: Path) -> None:
    """More alpha, less EMD; then EMD 1.4 is solved for, and what is shown is saved and can be copied."""
    found = explorer()
    page = found.page
    emd = page.locator("#numbers .stat").first.locator("b")
    before = float(emd.inner_text())
    page.focus("#range-p\\.alpha")
    for _ in range(8):
        page.keyboard.press("PageUp")
    until(page, f"Number(document.querySelector('#numbers b').textContent) < {before} - .3")
    assert "alpha=0.1" not in page.inner_text("#partition-command")
    page.fill("input[name=emd]", "1.4")
    page.press("input[name=emd]", "Enter")
    until(page, "Math.abs(Number(document.querySelector('#numbers b').textContent) - 1.4) < .02")
    page.wait_for_selector(SETTLED)
    alpha = page.input_value("input[name='p.alpha']")
    assert f"dirichlet(alpha={alpha})" in page.inner_text("#run-command")
    assert "CIFAR-10" in page.inner_text("#diagnosed")
    page.fill("#save input", "mine.npz")
    page.press("#save input", "Enter")
    until(page, "document.getElementById('said').textContent === 'Saved as mine.npz'")
    assert Partition.load(tmp_path / "mine.npz").record["emd"] == pytest.approx(1.4, abs=0.02)
    found.check_contrast()


def test_every_family_has_its_own_form(explorer: Callable[..., Any]) -> None:
    page = explorer().page
    page.select_option("select[name=family]", "limit_labels")
    page.wait_for_selector("input[name='p.t']")
    until(page, "document.getElementById('partition-command').textContent.includes('limit_labels')")
    assert page.locator("input[name='p.alpha']").count() == 0
    page.select_option("select[name=family]", "mixed")
    until(page, "document.getElementById('partition-command').textContent.includes('mixed(first=labels')")


def test_a_phone_at_night(explorer: Callable[..., Any], tmp_path: Path) -> None:
    """390 pixels, dark, and classes that are called like a script."""
    rows = "".join(
        f"{at / 7:.3f},{'<script>alert(1)</script>' if at % 2 else '<b>x</b>'}\n" for at in range(60)
    )
    (tmp_path / "own.csv").write_text("x,kind\n" + rows)
    found = explorer(width=390, height=844, color_scheme="dark")
    page = found.page
    page.fill("input[name=clients]", "6")
    page.select_option("select[name=data]", "own.csv")  # which does not say what to learn: the page asks
    until(page, "document.querySelector('input[name=other]').value === 'own.csv(label=)'")
    assert "own.csv has no column called label" in page.inner_text("#problem")
    assert str(tmp_path) not in page.inner_text("#problem")
    found.complaints.clear()  # the browser's own word on the refusal
    page.fill("input[name=other]", "own.csv(label=kind)")
    page.press("input[name=other]", "Tab")
    until(page, "document.getElementById('described').textContent.includes('6 clients · 48')")
    page.wait_for_selector(SETTLED)
    found.check_width()
    found.check_contrast()
    assert page.locator("#found b:text-is('x')").count() == 0
