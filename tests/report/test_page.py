"""A report page stands alone, cannot be broken by a label, and is written whole or not at all."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import unskew
from unskew.errors import InputError
from unskew.metrics import skew
from unskew.report.charts import partition_picture
from unskew.report.diagnosis import diagnose
from unskew.report.diagnosis_page import save_diagnosis
from unskew.report.drawing import save_chart
from unskew.report.page import Figure, Heading, Paragraph, TableBlock, page, save_page
from unskew.report.theme import themed

COUNTS = np.array([[30, 0, 2], [0, 40, 1], [3, 3, 90]])
LABELS = ["cat", "dog", "</script><b>bird"]


def picture() -> object:
    return partition_picture(COUNTS, skew(COUNTS), LABELS, "mine")


def test_a_page_fetches_nothing() -> None:
    """No script, style, font or image from elsewhere: it works with no network."""
    text = page("Skew", [Figure(themed(picture()))])
    own = re.sub(r'<script type="module">.*?</script>', "", text, flags=re.DOTALL)
    assert len(own) < 50_000 < len(text)  # the library is inside, once
    assert not re.search(r"\b(src|href)=|@import|url\(", own)


def test_a_page_without_charts_carries_no_library() -> None:
    """A few kilobytes of text stay a few kilobytes."""
    assert len(page("Words", [Heading("a"), Paragraph("b"), TableBlock(["c"], [["d"]])])) < 5000


def test_text_is_escaped_everywhere() -> None:
    """Headings, paragraphs, tables, titles and chart labels are text, never markup."""
    evil = "</script><script>alert(1)</script>"
    blocks = [Heading(evil), Paragraph(evil), TableBlock([evil], [[evil]]), Figure({"title": evil}, evil)]
    assert "<script>alert" not in page(evil, blocks, evil)


def test_every_template_is_escaped_and_no_page_is_made_elsewhere() -> None:
    """HTML stands in templates alone, which come with the package and trust no value by themselves."""
    source = Path(unskew.__file__).parent
    templates = sorted((source / "report" / "templates").glob("*.html"))
    assert [file.name for file in templates] == ["blocks.html", "card.html", "page.html", "results.html"]
    assert not [file.name for file in templates if re.search(r"\|\s*safe\b|autoescape", file.read_text())]
    markup = re.compile(r"""["'(>]</?(?:a|b|div|h[1-6]|li|p|small|span|table|td|th|tr|ul)\b[^"']*>""")
    made = [file.name for file in source.rglob("*.py") if markup.search(file.read_text("utf-8"))]
    assert made == []


def test_a_failed_write_leaves_the_old_page(tmp_path: Path) -> None:
    """What was there stays, and nothing else is left."""
    place = tmp_path / "report.html"
    place.write_text("old")
    with pytest.raises(TypeError):
        save_page(place, "new", [Figure({"not": object()})])
    assert place.read_text() == "old"
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("path", ["nowhere/report.html", "."])
def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, path: str) -> None:
    """One sentence, and nothing made."""
    with pytest.raises(InputError, match=r"does not exist; make it|is a folder; name a file"):
        save_page(tmp_path / path, "x", [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("suffix", "magic"),
    [(".png", b"\x89PNG"), (".svg", b"<svg"), (".pdf", b"%PDF"), (".html", b"<!doctype html>")],
)
def test_a_chart_is_written_in_the_format_of_its_name(tmp_path: Path, suffix: str, magic: bytes) -> None:
    """The ending decides; an existing file is replaced."""
    place = tmp_path / f"picture{suffix}"
    place.write_text("old")
    save_chart(picture(), place, "Skew")
    assert place.read_bytes().startswith(magic)
    assert list(tmp_path.iterdir()) == [place]


@pytest.mark.parametrize("name", ["picture.jpg", "picture"])
def test_an_unknown_ending_is_refused(tmp_path: Path, name: str) -> None:
    """One sentence that lists the endings."""
    with pytest.raises(InputError, match=r"write \.html, \.png, \.svg or \.pdf"):
        save_chart(picture(), tmp_path / name, "Skew")


def test_the_report_opens_in_a_browser_and_draws(tmp_path: Path) -> None:
    """A real browser, without a network, turns the page into drawn charts and shows no error."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no browser on this machine")
    report = tmp_path / "report.html"
    save_diagnosis(diagnose(COUNTS, dataset="mine", labels=LABELS), report)
    shown = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom",
         f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND", report.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip
    shown = re.sub(r"<script.*?</script>", "", shown, flags=re.DOTALL)
    assert "could not be drawn" not in shown
    assert shown.count("marks") > 3
    assert 'aria-roledescription="circle"' in shown
    assert "&lt;/script&gt;&lt;b&gt;bird" in shown
