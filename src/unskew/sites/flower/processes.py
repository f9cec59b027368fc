"""Flower's processes: a SuperLink at the coordinator, a SuperNode at a site. They are started by Flower's own flags,
talk TLS only, let in registered keys only, install nothing, and keep their files in our folders."""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import tomli_w

from unskew.errors import InputError, RunFailed, one_line
from unskew.files import write_file
from unskew.sites.certificates import days_left
from unskew.sites.extra import need_extra
from unskew.sites.flower.limits import LIMITS
from unskew.sites.flower.process_file import find_process, note_process, stop_process
from unskew.sites.flower.with_parent import PARENT
from unskew.sites.folders import FederationFolder, SiteFolder, join_address
from unskew.sites.private_files import check_private, make_private_folder

HERE = "127.0.0.1"
START_SECONDS = 60.0
REFUSED = 305
"""What Flower's SuperNode says where the SuperLink does not let it in; the process itself ends with 1."""

BEGINS = "Starting Flower SuperNode"

PID, LOG, NODES = "superlink.json", "superlink.log", "nodes.json"


def environment(home: Path, with_parent: bool) -> dict[str, str]:
    """What Flower's processes find around them: our own home, nothing told or fetched, quick questions."""
    bins = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    told = {
        "FLWR_HOME": str(home.resolve()),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
        "PATH": bins,
    }
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FLWR_") and k != PARENT}
    return kept | told | ({PARENT: str(os.getpid())} if with_parent else {})


def bind_host(folder: FederationFolder) -> str:
    """Where the SuperLink listens: on this machine alone where sites reach it as localhost, else everywhere."""
    return HERE if folder.host in ("localhost", HERE) else ("::1" if folder.host == "::1" else "0.0.0.0")


def start_superlink(folder: FederationFolder, with_parent: bool = False) -> subprocess.Popen[bytes]:
    """Start the SuperLink, wait until it answers, and register the sites' keys. It goes on living by itself, or ends
    with this process."""
    need_extra()
    if find_process(folder.flower / PID) is not None:
        raise InputError(
            f"federation {folder.name!r} runs already; stop it with `unskew federation stop {folder.path}`"
        )
    check_private(folder.certificate_key)
    if days_left(folder.certificate.read_bytes()) < 0:
        raise InputError(
            f"the server's certificate has ended; renew it with `unskew federation renew {folder.path}`"
        )
    _check_free(bind_host(folder), folder.port)
    home = make_private_folder(folder.flower)
    write_connection(folder)
    shutil.rmtree(home / LIMITS, ignore_errors=True)  # of runs that were killed
    command = [
        *(sys.executable, "-m", "unskew.sites.flower.superlink"),
        *("--host", bind_host(folder), "--port", str(folder.port)),
        *("--ssl-ca-certfile", str(folder.ca.resolve())),
        *("--ssl-certfile", str(folder.certificate.resolve())),
        *("--ssl-keyfile", str(folder.certificate_key.resolve())),
        *("--database", str((home / "superlink.db").resolve())),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
    ]
    process = _launch(command, home, home / LOG, with_parent)
    note_process(home / PID, process.pid)
    try:
        _wait_until_open(folder, process, home / LOG)
        register_sites(folder)
    except BaseException:
        stop_process(home / PID)
        process.wait()
        raise
    return process


def stop_superlink(folder: FederationFolder) -> bool:
    """Stop the SuperLink that ``federation start`` began; False where none runs."""
    return stop_process(folder.flower / PID)


def superlink_since(folder: FederationFolder) -> float | None:
    """Since when the SuperLink runs; None where it does not."""
    found = find_process(folder.flower / PID)
    return None if found is None else found[1]


def write_connection(folder: FederationFolder) -> None:
    """Flower's own settings: where the SuperLink is, and by whose certificate it is known."""
    here = "localhost" if bind_host(folder) != "::1" else "::1"
    link = {"address": join_address(here, folder.port), "root-certificates": str(folder.ca.resolve())}
    told = {"superlink": {"default": folder.name, folder.name: link}}
    write_file(folder.flower / "config.toml", tomli_w.dumps(told))


def ask_flower(folder: FederationFolder, *words: str) -> dict[str, Any]:
    """One of Flower's commands, answered as JSON."""
    with flower_commands(folder) as ask:
        return ask(*words)


@contextmanager
def flower_commands(folder: FederationFolder) -> Iterator[Callable[..., dict[str, Any]]]:
    """A process that carries out Flower's commands, and a function that takes the words of one and gives its answer."""
    need_extra()
    process = subprocess.Popen(
        [sys.executable, "-m", "unskew.sites.flower.commands"],
        env=environment(folder.flower, False),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield partial(_ask_process, process)
        finally:
            process.kill()


def _ask_process(process: subprocess.Popen[str], *words: str) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    limit = threading.Timer(START_SECONDS, process.kill)
    limit.start()
    with suppress(BrokenPipeError):  # it has ended: its last words say why
        process.stdin.write(json.dumps([*words, "--format", "json"]) + "\n")
        process.stdin.flush()
    line = process.stdout.readline()
    limit.cancel()
    said, complaint = "", ""
    with suppress(ValueError):
        said, complaint = json.loads(line) if line else ("", process.stderr.read())
        start = said.find("{")
        found = json.loads(said[start:]) if start >= 0 else {}
        if found.get("success"):
            return dict(found)
        raise RunFailed(f"Flower's `flwr {words[0]}` failed: {found.get('error-message', complaint[-500:])}")
    raise RunFailed(
        f"Flower's `flwr {words[0]}` failed: {one_line(complaint[-500:] or said[-500:] or line[-500:])}"
    )


def register_sites(folder: FederationFolder) -> dict[str, str]:
    """Let in the keys of all sites, and no longer those of others; site -> Flower's number for it."""
    nodes = _noted(folder)
    gone = [site for site in nodes if site not in folder.sites]
    new = [site for site in folder.sites if site not in nodes]
    if not gone and not new:
        return nodes
    with flower_commands(folder) as ask:
        for site in gone:
            ask("supernode", "unregister", nodes.pop(site), folder.name)
            write_file(folder.flower / NODES, json.dumps(nodes))
        for site in new:
            key = str(folder.public_key(site))
            found = ask("supernode", "register", key, folder.name, "--name", site)
            nodes[site] = str(found["node-id"])
            write_file(folder.flower / NODES, json.dumps(nodes))
    return nodes


def registered(folder: FederationFolder) -> dict[str, str]:
    """Site -> Flower's number for it, as far as they were registered."""
    return {site: node for site, node in _noted(folder).items() if site in folder.sites}


def _noted(folder: FederationFolder) -> dict[str, str]:
    try:
        told = json.loads((folder.flower / NODES).read_text())
    except (OSError, ValueError):
        return {}
    return {str(site): str(node) for site, node in told.items()}


def start_supernode(site: SiteFolder, socket_path: Path) -> subprocess.Popen[bytes]:
    """Start a site's SuperNode, which hands messages to the process that listens on a socket. It ends with this one."""
    need_extra()
    check_private(site.key)
    home = make_private_folder(site.flower)
    command = [
        *(sys.executable, "-m", "unskew.sites.flower.supernode"),
        *("--superlink", site.address, "--root-certificates", str(site.ca.resolve())),
        *("--auth-supernode-private-key", str(site.key.resolve())),
        *("--isolation", "process", "--host", HERE, "--port", str(_free_port())),
        *("--node-config", f"socket={json.dumps(str(socket_path))}"),
    ]
    return _launch(command, home, home / "supernode.log", with_parent=True)


def explain_end(site: SiteFolder, code: int) -> str:
    """Why a SuperNode ended, in one sentence."""
    log = site.flower / "supernode.log"
    since = _tail(log, 8000).rpartition(BEGINS)[2]  # earlier ends stand before it
    if f"Exit Code: {REFUSED}" in since:
        return (
            f"the coordinator at {site.address} does not know the key of site {site.name!r}; ask whether it was made "
            "for this federation, and whether the clocks of both machines agree"
        )
    return f"Flower's SuperNode ended with code {code}; its last words: {one_line(since[-400:])}"


def check_reach(site: SiteFolder) -> None:
    """Refuse a coordinator that cannot be reached, or that is not the one whose certificate the site was given."""
    context = ssl.create_default_context(cafile=str(site.ca))
    try:
        with (
            socket.create_connection((site.host, site.port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=site.host),
        ):
            return
    except ssl.SSLCertVerificationError as problem:
        raise RunFailed(
            f"who answers at {site.address} is not the coordinator that site {site.name!r} was made for "
            f"({problem.verify_message}); nothing was sent"
        ) from None
    except OSError as problem:
        raise RunFailed(
            f"cannot reach the coordinator at {site.address} ({problem.strerror or problem}); is it started, and does "
            "the firewall let this port through?"
        ) from None


def stop_child(process: subprocess.Popen[bytes]) -> None:
    """End a process that this one started, politely and then not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def _launch(command: list[str], home: Path, log: Path, with_parent: bool) -> subprocess.Popen[bytes]:
    with _open_log(log) as out:
        return subprocess.Popen(
            command,
            env=environment(home, with_parent),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the command that the user sees, which then ends this one
        )


def _open_log(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def _wait_until_open(folder: FederationFolder, process: subprocess.Popen[bytes], log: Path) -> None:
    context = ssl.create_default_context(cafile=str(folder.ca))
    ends = time.monotonic() + START_SECONDS
    while time.monotonic() < ends:
        if process.poll() is not None:
            raise RunFailed(f"Flower's SuperLink ended at once; its last words: {_last(log, 400)}")
        with (
            suppress(OSError),
            socket.create_connection(
                (bind_host(folder).replace("0.0.0.0", HERE), folder.port), timeout=1
            ) as plain,
            context.wrap_socket(plain, server_hostname="localhost"),
        ):
            return
        time.sleep(0.1)
    raise RunFailed(f"Flower's SuperLink did not answer within {START_SECONDS:g} s; see {log}")


def _check_free(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as problem:
            raise InputError(
                f"port {port} cannot be taken ({problem.strerror}); end who uses it, or choose another with "
                "`unskew federation renew FOLDER --port PORT`"
            ) from None


def _free_port() -> int:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as trial:
        trial.bind((HERE, 0))
        return int(trial.getsockname()[1])


def _last(log: Path, letters: int) -> str:
    return one_line(_tail(log, letters))


def _tail(log: Path, letters: int) -> str:
    with suppress(OSError):
        return " ".join(log.read_text("utf-8", "replace")[-letters:].split())
    return ""
