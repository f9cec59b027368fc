"""Flags by the names that they had before: still understood, with a warning that says what to write instead."""

from __future__ import annotations

from collections.abc import Callable

from unskew.errors import InputError

FLAGS = {"--data": "--data-folder", "--output": "--out", "--load": "--partition"}
"""Flags of the command line that have another name now."""

NEWER = ("site", "federation")
"""Commands that are younger than the new names: their own flags may be called as old ones were."""


def with_new_flags(words: list[str], tell: Callable[[str], None]) -> list[str]:
    """A command line with its old flags by their new names; ``tell`` is given a sentence for each."""
    if next((word for word in words if not word.startswith("-")), "") in NEWER:
        return words
    made: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return made + words[place:]
        flag, equals, value = word.partition("=")
        if flag in FLAGS:
            value = value if equals else next(iter(words[place + 1 :]), "")
            if flag == "--data":
                _refuse_data_set(value)
            tell(f"{flag} is now called {FLAGS[flag]}; write {FLAGS[flag]}")
            word = FLAGS[flag] + word[len(flag) :]
        made.append(word)
    return made


def _refuse_data_set(value: str) -> None:
    """``--data`` was a folder's flag: whoever means a data set by it would train on another, without a word."""
    from unskew.data.sources import SOURCES  # it takes numpy, and most command lines have no old flag

    name = value.partition("(")[0].strip()
    if name in SOURCES or name.lower().endswith((".npz", ".csv", ".tsv", ".parquet", ".pq")):
        raise InputError(
            f"--data is the old name of --data-folder, where published files lie; to name {value}, the data set, "
            f"write --dataset {value} (run, sweep) or {value} alone (diagnose, partition)"
        )
