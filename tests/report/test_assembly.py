"""Charts are put together as Altair would, and are held against the schema as its own charts are."""

from __future__ import annotations

from typing import Any

import altair as alt
import pytest
from jsonschema import ValidationError

from unskew.report import theme
from unskew.report.assembly import Assembled, below, beside, in_columns, layered
from unskew.report.theme import inline, themed

DATA = inline([{"x": 1, "y": 2}, {"x": 2, "y": 3}])
OTHER = inline([{"y": 1}])


def chart(data: Any = DATA) -> alt.Chart:
    return alt.Chart(data).mark_line().encode(x=alt.X("x:Q"), y=alt.Y("y:Q"))


def rule() -> alt.Chart:
    return alt.Chart(OTHER).mark_rule().encode(y=alt.Y("y:Q"))


def assert_same(ours: Assembled, altairs: alt.TopLevelMixin) -> None:
    assert themed(ours) == themed(altairs)


def test_layers_name_their_common_data_once() -> None:
    """And each its own where they differ."""
    title = alt.TitleParams("Seen", subtitle=["below"])
    assert_same(
        layered(chart(), chart().mark_point(), width=90, height=40, title=title),
        alt.layer(chart(), chart().mark_point()).properties(width=90, height=40, title=title),
    )
    ours = layered(chart(), rule(), title="Seen")
    assert_same(ours, alt.layer(chart(), rule()).properties(title="Seen"))
    assert len(themed(ours)["datasets"]) == 2


def test_pictures_stand_beside_and_below_one_another() -> None:
    """Layers within rows within columns, as deep as one likes."""
    left, ours = alt.layer(chart(), rule()), layered(chart(), rule())
    row = alt.hconcat(left, chart(), spacing=9, bounds="flush").resolve_scale(color="independent")
    ours_row = beside(ours, chart(), spacing=9, bounds="flush", resolve={"scale": {"color": "independent"}})
    assert_same(below(ours, ours_row, spacing=4), alt.vconcat(left, row, spacing=4))
    assert_same(in_columns(ours, chart(), columns=1), alt.concat(left, chart(), columns=1))


def test_a_parameter_finds_its_view_by_name() -> None:
    """The first layer has it, and no other; the picture that it was made of stays as it was."""
    plain = layered(chart(), rule())
    named = plain.with_name("first").to_dict()
    assert [layer.get("name") for layer in named["layer"]] == ["first", None]
    assert [layer.get("name") for layer in plain.to_dict()["layer"]] == [None, None]


@pytest.mark.parametrize("put_together", [layered, beside, below, lambda *all: in_columns(*all, columns=2)])
def test_what_vega_lite_does_not_know_is_refused(put_together: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deep within too, where charts are checked."""
    right, wrong = (
        Assembled({"mark": {"type": "line", name: 2}, "data": {"name": "a"}}, {"a": []})
        for name in ("strokeWidth", "strokeWidht")
    )
    themed(put_together(chart(), right))
    with pytest.raises(ValidationError):
        themed(put_together(chart(), wrong))
    with pytest.raises(ValidationError, match="spacig"):
        themed(beside(chart(), chart(), spacig=3))
    monkeypatch.setattr(theme, "CHECKED", False)
    themed(put_together(chart(), wrong))
