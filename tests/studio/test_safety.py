"""Who may ask the studio, and for what."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from unskew.errors import InputError
from unskew.studio.security import Door, inside

OpenStudio = Callable[..., Any]
WriteRun = Callable[..., Path]


def test_without_the_token_nothing_is_told(open_studio: OpenStudio, tmp_path: Path) -> None:
    studio = open_studio(tmp_path)
    for path in ("/", "/runs", "/runs/data", "/static/studio.css", "/?token=wrong", "/runs?token="):
        answer = httpx.get(studio.root + path)
        assert answer.status_code == 403
        assert studio.door.token not in answer.text
    given = httpx.get(studio.root + "/runs/data", headers={"x-unskew-token": studio.door.token})
    assert given.status_code == 200


def test_the_token_becomes_a_cookie_that_other_sites_and_scripts_cannot_have(
    open_studio: OpenStudio, tmp_path: Path
) -> None:
    studio = open_studio(tmp_path)
    answer = httpx.get(f"{studio.root}/runs?token={studio.door.token}&x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?x=1")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    elsewhere = httpx.get(f"{studio.root}//evil.example/?token={studio.door.token}")
    assert not elsewhere.headers.get("location", "/").startswith("//")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "localhost", ""])
def test_another_name_for_this_machine_is_refused(open_studio: OpenStudio, tmp_path: Path, host: str) -> None:
    """A name that somebody's server resolves to 127.0.0.1 has the cookie's machine, but not its Host."""
    studio = open_studio(tmp_path)
    assert studio.get("/runs/data", headers={"host": host}).status_code in (400, 403)
    assert studio.get("/runs/data").status_code == 200


def test_another_sites_page_is_refused(open_studio: OpenStudio, tmp_path: Path) -> None:
    studio = open_studio(tmp_path)
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"http://127.0.0.1:{studio.door.port + 1}"},
        {"sec-fetch-site": "cross-site"},
    ):
        assert studio.get("/runs/data", headers=headers).status_code == 403
        assert studio.post("/runs/queue", {"forget": True}, headers=headers).status_code == 403
    assert studio.client.post(studio.root + "/runs/queue", json={}).status_code == 403  # no origin at all
    assert studio.post("/runs/queue", {"forget": True}).status_code == 200


def test_no_path_leads_out_of_the_folder(
    open_studio: OpenStudio, write_run: WriteRun, tmp_path: Path
) -> None:
    write_run("secret/run", [0.5])
    write_run("shown/run", [0.5])
    (tmp_path / "shown" / "link").symlink_to(tmp_path / "secret", target_is_directory=True)
    studio = open_studio(tmp_path / "shown")
    assert studio.get("/run/run").status_code == 200
    for name in (
        "..%2fsecret%2frun",
        "%2e%2e/secret/run",
        "link/run",
        "/etc",
        "%2fetc%2fpasswd",
        "a%00b",
        "..%5csecret",
    ):
        for screen in ("run", "run-rounds", "run-sums", "run-held", "run-events"):
            assert studio.get(f"/{screen}/{name}").status_code in (400, 404), (screen, name)
    for name in ("..%2fapp.py", "..%2f..%2fversion.py", "%2e%2e%2fapp.py", "studio.py"):
        assert studio.get(f"/static/{name}").status_code == 404
    listed = [row["name"] for row in studio.get("/runs/data").json()["rows"]]
    assert listed == ["run"]
    for name in ("../new", "/tmp/new", "link/new", ".hidden", "a/../../b", "-rf", ""):
        answer = studio.post("/runs/start", {"name": name, "settings": {"rounds": "1"}})
        assert answer.status_code == 400, name
        assert "error" in answer.json()
    assert not (tmp_path / "new").exists()


def test_inside_follows_links_before_it_decides(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "out").symlink_to(tmp_path)
    assert inside(tmp_path / "in", "a/b") == tmp_path / "in" / "a" / "b"
    with pytest.raises(InputError, match="outside"):
        inside(tmp_path / "in", "out/x")


def test_a_read_only_studio_changes_nothing(
    open_studio: OpenStudio, write_run: WriteRun, tmp_path: Path
) -> None:
    write_run("run", [0.5], status="running", rounds=9)
    studio = open_studio(tmp_path, read_only=True)
    before = sorted(str(path) for path in tmp_path.rglob("*") if path.name != "lock")
    for path in ("/runs/start", "/runs/stop", "/runs/resume", "/runs/queue"):
        answer = studio.post(path, {"name": "run", "settings": {}})
        assert answer.status_code == 403
        assert "read-only" in answer.text
    assert studio.get("/runs").status_code == 200
    assert sorted(str(path) for path in tmp_path.rglob("*") if path.name != "lock") == before


def test_every_answer_has_the_policy_errors_too(open_studio: OpenStudio, tmp_path: Path) -> None:
    studio = open_studio(tmp_path)
    for path in ("/runs", "/nothing", "/static/vega.js", "/run/none"):
        headers = studio.get(path).headers
        assert "script-src 'self';" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert httpx.get(studio.root).headers["referrer-policy"] == "no-referrer"


def test_requests_that_are_no_requests_get_a_sentence(open_studio: OpenStudio, tmp_path: Path) -> None:
    studio = open_studio(tmp_path)
    for values in (
        None,
        [],
        "x",
        {"name": 3},
        {"name": "a", "settings": []},
        {"name": "a", "settings": {"lr": "no"}},
    ):
        answer = studio.post("/runs/start", values)
        assert answer.status_code == 400, values
        assert answer.json()["error"]
    huge = studio.client.post(
        studio.root + "/runs/start", content=b"x" * 1_100_000, headers={"origin": studio.root}
    )
    assert huge.status_code == 413


def test_tokens_are_long_and_new_every_time() -> None:
    assert len({Door(1).token for _ in range(50)}) == 50
    assert len(Door(1).token) >= 32
    assert Door(1).token not in repr(Door(1))


def test_no_torch_is_loaded_by_the_studio(write_run: WriteRun, tmp_path: Path) -> None:
    """Opening pages of runs and of one run takes no second for torch."""
    write_run("run", [0.5, 0.6])
    code = f"""
import sys
from pathlib import Path
from starlette.testclient import TestClient
from unskew.studio.app import make_app
from unskew.studio.security import Door
from unskew.studio.shared import Studio
door = Door(80)
with TestClient(make_app(Studio(Path({str(tmp_path)!r}), door)), base_url="http://127.0.0.1:80") as client:
    headers = {{"x-unskew-token": door.token, "host": "127.0.0.1:80"}}
    for path in ("/runs", "/run/run", "/runs/offers", "/run-sums/run"):
        assert client.get(path, headers=headers).status_code == 200, path
print("torch" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ, timeout=120, capture_output=True, text=True
    )
    assert done.stdout.split() == ["False"]


def test_without_its_packages_the_command_says_what_to_install(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["uvicorn"] = None
from unskew.cli import main
raise SystemExit(main(["studio", ".", "--no-open"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2
    assert "pip install 'unskew[studio]'" in done.stderr
    assert done.stderr.count("\n") == 1
