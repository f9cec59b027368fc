"""The log for a data protection officer."""

import json

from unskew.sites.officer_log import Entry, OfficerLog


def test_a_line_says_what_was_asked_and_what_was_sent(tmp_path):
    """In words for people and in JSON for programs, in files that only the owner reads."""
    shown = []
    log = OfficerLog(tmp_path, shown.append)
    log.write(Entry("training", "a model update", 1200, 34_000, run="first", round=0, about={"clients": 2}))
    log.write(Entry("label counts", refused="kld asks site 'north'\nfor label counts", run="x\x1b[31m"))
    text = (tmp_path / "sent.log").read_text().splitlines()
    assert shown == text
    assert text[0].endswith(
        "run first, round 1: asked for training (1,200 bytes); sent a model update (34,000 bytes)"
    )
    assert text[1].endswith(
        r"run x\x1b[31m: asked for label counts (0 bytes); REFUSED: kld asks site 'north'\nfor label counts"
    )
    lines = [json.loads(line) for line in (tmp_path / "sent.jsonl").read_text().splitlines()]
    assert [line["bytes_out"] for line in lines] == [34_000, 0]
    assert lines[0]["about"] == {"clients": 2}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
