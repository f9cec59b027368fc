"""Expressions with words that need quotes, and paths that carry options."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.data import load
from unskew.errors import InputError
from unskew.expression import Call, parse, parse_one, path_and_options


@given(st.text() | st.sampled_from(['a"b', "it's", "a\"b'c", "1.5.2", "2020-01-01", " x", "none", "größe"]))
def test_every_word_can_be_written_and_read_again(word: str) -> None:
    """A column may have any name, with quotes, spaces and dates in it."""
    assert parse_one(str(Call("by", (word,))), "partition").args == (word,)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (
            "wireless(gains=/data/gains.npy)",
            "cannot read 'wireless(gains=/data/gains.npy)' at '/data/gains.npy)'; put the path in quotes, "
            '"/data/gains.npy"',
        ),
        ("by(größe)", "cannot read 'by(größe)' at 'öße)'; put the name in quotes, \"größe\""),
        ("by(it's)", 'cannot read "by(it\'s)" at "\'s)"; put the name in quotes, "it\'s"'),
        ("dirichlet(0.1;5)", "cannot read 'dirichlet(0.1;5)' at ';5)'; write it like name(1, key=2)"),
        ("t.csv(sep=;)", "cannot read 't.csv(sep=;)' at ';)'; put the value in quotes, \";\""),
        (
            "./my/net.py:Net(8)",
            "cannot read './my/net.py:Net(8)' at './my/net.py:Net(8)'; write net:Net, as Python would import it from "
            "the folder of net.py",
        ),
        ("größe(1)", "cannot read 'größe(1)' at 'öße(1)'; write it like name(1, key=2)"),
    ],
)
def test_a_word_that_needs_quotes_is_said_to(text: str, remedy: str) -> None:
    """Where a column's name may stand, quotes are what is missing."""
    with pytest.raises(InputError) as caught:
        parse(text)
    assert str(caught.value) == remedy


def test_brackets_in_the_name_of_a_file_are_not_its_options(tmp_path: Path) -> None:
    """A second download is called data(1).csv, and may carry options like any other."""
    path = tmp_path / "data(1).csv"
    path.write_text("a,what\n" + "1,x\n2,y\n" * 5)
    assert path_and_options(str(path)) == (str(path), "")
    assert path_and_options("mixed(labels(1), iid)") == ("mixed", "(labels(1), iid)")
    assert load(f"{path}(label=what)").labels == ("x", "y")


def test_a_number_beyond_floats_is_refused():
    """1e400 would be infinite, and a run of such a weight lose every answer."""
    with pytest.raises(InputError, match="1e400 in 'fedprox\\(mu=1e400\\)' is too large a number"):
        parse("fedprox(mu=1e400)")
