"""What is around Flower's processes: who may ask what, who is stopped, what is told where something is missing."""

import asyncio
import importlib.metadata
import json
import os
import subprocess
import sys
import time

import pytest

from unskew import InputError
from unskew.cli import main
from unskew.sites.extra import need_extra
from unskew.sites.flower.limits import Limit, largest
from unskew.sites.flower.process_file import find_process, note_process, stop_process
from unskew.sites.flower.processes import environment
from unskew.sites.flower.superlink import SitesOnly, is_open


@pytest.mark.parametrize(
    ("path", "client", "opened"),
    [
        ("/v1/fleet/pull-messages", "192.0.2.9", True),
        ("/v1/control/start-run", "192.0.2.9", False),
        ("/v1/control/register-node", "2001:db8::9", False),
        ("/v1/runtime/acquire-task", "192.0.2.9", False),
        ("/docs", "192.0.2.9", False),
        ("/v1/control/start-run", "127.0.0.1", True),
        ("/v1/control/start-run", "::1", True),
        ("/v1/control/start-run", "::ffff:192.0.2.9", False),
        ("/v1/control/start-run", "", False),
    ],
)
def test_other_machines_reach_what_is_for_sites_alone(path, client, opened, tmp_path):
    """Flower's control interface asks nobody who they are."""
    assert is_open(path, client) is opened
    reached, told = [], []

    async def inner(scope, receive, send):
        reached.append(scope["path"])

    async def send(event):
        told.append(event.get("status"))

    asyncio.run(SitesOnly(inner, tmp_path)({"type": "http", "path": path, "client": (client, 1)}, None, send))
    assert reached == ([path] if opened else [])
    assert told == ([] if opened else [403, None])


@pytest.mark.parametrize("said", [True, False])
def test_the_server_takes_no_more_from_a_site_than_a_run_expects(tmp_path, monkeypatch, said):
    """A site that sends 10 GB is hung up on once that is clear: at once where it says so, else at the limit."""
    monkeypatch.setattr("unskew.sites.flower.limits.USUAL", 100)
    monkeypatch.setattr("unskew.sites.flower.limits.OVERHEAD", 0)
    taken, told = [], []

    async def inner(scope, receive, send):
        while (event := await receive())["type"] == "http.request" and event["more_body"]:
            taken.append(len(event["body"]))

    async def endless():
        return {"type": "http.request", "body": b"x" * 60, "more_body": True}

    async def send(event):
        told.append(event.get("status"))

    headers = [(b"content-length", b"10000000000")] if said else []
    scope = {"type": "http", "path": "/v1/fleet/push-object", "client": ("192.0.2.9", 1), "headers": headers}
    asyncio.run(SitesOnly(inner, tmp_path)(scope, endless, send))
    assert (taken, told) == (([], [413, None]) if said else ([60], []))
    limit = Limit(tmp_path)
    limit.set(130)
    taken.clear()
    asyncio.run(SitesOnly(inner, tmp_path)(scope | {"headers": []}, endless, send))
    assert taken == [60, 60]
    limit.close()
    assert largest(tmp_path) == 100


def test_a_site_passes_on_no_messages_but_ours(tmp_path):
    """An app that asks Flower's node to train gets no training, and no code of it runs."""
    flwr = pytest.importorskip("flwr.app")
    from flwr.app.message import make_message

    from unskew.sites.flower.supernode import answer

    content = flwr.RecordDict({"unskew": flwr.ConfigRecord({"data": b"x"})})
    about = flwr.Metadata(
        run_id=1, message_id="1", src_node_id=1, dst_node_id=2, reply_to_message_id="", group_id="",
        created_at=time.time(), ttl=60.0, message_type="train",
    )  # fmt: skip
    asked = make_message(about, content)
    told = answer(asked, tmp_path / "nobody").content["unskew"]
    assert told["lost"] == "takes no messages but unskew's"


def test_no_stranger_is_stopped(tmp_path):
    """A number that another process has by now is nobody's to stop."""
    sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    path = tmp_path / "process.json"
    try:
        note_process(path, sleeper.pid)
        assert find_process(path)[0] == sleeper.pid
        told = json.loads(path.read_text())
        path.write_text(json.dumps(told | {"began": "another time"}))
        assert find_process(path) is None
        assert stop_process(path) is False
        assert sleeper.poll() is None
        for text in (
            "",
            "[]",
            '{"pid": 1, "began": null, "since": 0}',
            '{"pid": -1, "began": "x", "since": 0}',
        ):
            path.write_text(text)
            assert stop_process(path) is False
        note_process(path, sleeper.pid)
        assert stop_process(path) is True
        assert not path.exists()
    finally:
        sleeper.kill()
        sleeper.wait()


def test_flower_is_told_nothing_of_the_user(tmp_path, monkeypatch):
    """No telemetry, no look for updates, a home of its own; settings of another Flower do not get in."""
    monkeypatch.setenv("FLWR_HOME", "elsewhere")
    monkeypatch.setenv("FLWR_TELEMETRY_LOGGING", "1")
    found = environment(tmp_path, with_parent=True)
    assert found["FLWR_HOME"] == str(tmp_path)
    assert (found["FLWR_TELEMETRY_ENABLED"], found["FLWR_DISABLE_UPDATE_CHECK"]) == ("0", "1")
    assert "FLWR_TELEMETRY_LOGGING" not in found
    assert found["UNSKEW_PARENT"] == str(os.getpid())


def test_what_is_missing_is_told_with_how_to_get_it(monkeypatch, tmp_path, capsys):
    """Flower is not part of the base install."""

    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(InputError, match=r'need the package flwr; write: pip install "unskew\[sites\]"'):
        need_extra()
    assert main(["federation", "init", str(tmp_path / "ops"), "--sites", "north"]) == 2
    assert 'pip install "unskew[sites]"' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.42.0")
    with pytest.raises(InputError, match=r"Flower 1\.41\.\*, and 1\.42\.0 is installed"):
        need_extra()
