"""Opens the studio: finds a port, says the address, serves until it is stopped."""

from __future__ import annotations

import importlib.util
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

from unskew.errors import InputError


def serve(
    folder: Path,
    port: int | None = None,
    read_only: bool = False,
    open_browser: bool = True,
    say: Callable[[str], None] = print,
) -> None:
    """Serve the studio over a folder until Ctrl-C; ``say`` is told the address once it can be opened."""
    check_folder(folder)
    check_packages()
    import uvicorn

    from unskew.studio.app import make_app
    from unskew.studio.security import Door
    from unskew.studio.shared import DEFAULT_PORT, Studio

    with bound(port, DEFAULT_PORT) as listening:
        door = Door(listening.getsockname()[1], read_only)
        app = make_app(Studio(folder, door))
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            ws="none",
            server_header=False,
            proxy_headers=False,  # nobody stands between the browser and the studio
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        say(door.address)
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(door.address,), daemon=True).start()
        server.run(sockets=[listening])


def check_folder(folder: Path) -> None:
    if not folder.exists():
        raise InputError(f"there is no folder {folder}; name one that holds runs, or make an empty one")
    if not folder.is_dir():
        raise InputError(f"{folder} is a file; name a folder that holds runs")


def check_packages() -> None:
    """Say in one sentence what is missing."""
    for name in ("starlette", "uvicorn"):
        if importlib.util.find_spec(name) is None:
            raise InputError(f"the studio needs the package {name!r}; write pip install 'unskew[studio]'")


def bound(port: int | None, usual: int) -> socket.socket:
    """A socket that listens on this machine alone: at the port asked for, else at the usual one or any free one."""
    wanted = [usual, 0] if port is None else [port]
    for number in wanted:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", number))
            return listening
        except (OSError, OverflowError):
            listening.close()
    raise InputError(f"port {wanted[-1]} cannot be had: another program has it; choose another --port")
