"""``unskew studio --export DIR``: the screens as pages that need no server, to publish beside a paper.

Every page is asked of the studio itself and saved with the answers that it will ask for. Browsers let a page from the
disk load scripts, but neither modules nor JSON files: so modules become one script a page (``bundle.py``), and answers
are written twice, as JSON for whoever reads them and as a script for the page.
"""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from starlette.types import ASGIApp, Message

from unskew.errors import InputError, RunFailed
from unskew.files import replace_folder, write_file
from unskew.progress import working
from unskew.studio.bundle import bundle
from unskew.studio.compare import FORMATS, Comparer, exported
from unskew.studio.explore import held_partitions
from unskew.studio.security import HEADER, HERE, Door
from unskew.studio.served import served_file
from unskew.studio.shared import DEFAULT_PORT, Studio
from unskew.version import __version__

MARK = "unskew-studio.json"
"""The file by which a copy is known, so that a newer one may take its place."""

MODULE = re.compile(r'<script type="module" src="/static/([\w-]+)\.js"></script>\n?')
LINK = re.compile(r'\b(href|src)="(/[^"]*)"')


@dataclass(frozen=True)
class CopiedPage:
    """A page: where the studio has it, its file in the copy, and the questions that it will ask.

    A question is (what the page asks, without what follows "?"; the addresses whose answers are put together).
    """

    address: str
    file: str
    asks: dict[str, list[str]] = field(default_factory=dict)


def export_site(folder: Path, target: Path) -> Path:
    """Write the copy, whole or not at all; returns its first page."""
    check_target(folder, target)
    studio = Studio(folder, Door(DEFAULT_PORT, read_only=True), copy=True)
    from unskew.studio.app import make_app

    app = make_app(studio)
    site = Site(studio, app)
    with replace_folder(target) as draft:
        site.write(draft)
    return target / "index.html"


def check_target(folder: Path, target: Path) -> None:
    """Refuse a folder that holds anything but an earlier copy, and one that the copy would be read from."""
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file; name a folder for the copy")
    if target.is_dir() and any(target.iterdir()) and not (target / MARK).is_file():
        raise InputError(f"{target} holds other files; name a new folder for the copy, or an earlier copy")
    if folder.resolve().is_relative_to(target.resolve()):
        raise InputError(f"{target} holds the runs themselves; name another folder for the copy")


class Site:
    """Asks the studio for its pages and writes them down."""

    def __init__(self, studio: Studio, app: ASGIApp) -> None:
        self.studio, self.app = studio, app
        self.pages = list(self._pages())
        self.files = {page.address: page.file for page in self.pages} | {"/": "index.html"}
        self.files |= {_as_written(page.address): page.file for page in self.pages}
        self.modules: set[str] = set()

    def _pages(self) -> Iterator[CopiedPage]:
        comparer = Comparer(self.studio.folder)
        names = [comparer.named(record.path) for record in comparer.read()[0] if record.path is not None]
        screens = {address for address, _ in self.studio.navigation}
        if "/runs" in screens:
            lines = f"/runs/lines?{'&'.join(f'name={quote(name)}' for name in names)}"
            yield CopiedPage("/runs", "runs.html", {"/runs/lines": [lines] if names else []})
        if names:
            yield CopiedPage("/compare", "compare.html", {"/compare/of": ["/compare/of"]})
            runs = held_partitions(self.studio.folder)
            held = [f"/partition/run?name={in_address(run['name'])}" for run in runs]
            yield CopiedPage("/partition", "partition.html", {address: [address] for address in held})
        taken: set[str] = set()
        for name in names:
            file = _file_of(name, taken)
            at = quote("" if name == "." else name)
            parts = {
                f"/{part}/{at}": [f"/{part}/{at}"]
                for part in ("run-sums", "run-points", "run-took", "run-held")
            }
            yield CopiedPage(f"/run/{at}", file, parts | {f"/run-rounds/{at}": []})

    def write(self, place: Path) -> None:
        for inner in ("static", "data"):
            (place / inner).mkdir()
        with working("writing pages", len(self.pages)) as advance:
            for page in self.pages:
                status, content = self.get(page.address, "text/html")
                if status == 200:
                    self._write_page(place, page, content.decode())
                elif not page.address.startswith("/run/"):
                    raise RunFailed(f"{page.address} could not be copied: the studio answered {status}")
                advance(1)
        for name in {*self.modules, "vega.js", "theme.css", "theme.js", "studio.css", "icon.svg"}:
            self._write_static(place, name)
        for file in (resources.files("unskew.studio") / "copied").iterdir():
            write_file(place / "static" / file.name, file.read_bytes())
        self._write_tables(place)
        first = self.pages[0].file if self.pages else ""
        write_file(
            place / "index.html",
            '<!doctype html><meta charset="utf-8"><title>unskew</title>'
            f'<meta http-equiv="refresh" content="0; url={first}">'
            f'<a href="{first}">Runs</a>\n',
        )
        write_file(place / MARK, json.dumps({"unskew": __version__, "pages": self.files}) + "\n")

    def _write_page(self, place: Path, page: CopiedPage, text: str) -> None:
        stem = page.file.removesuffix(".html")
        saved = json.dumps(self._answers(page), separators=(",", ":"))
        write_file(place / "data" / f"{stem}.json", saved + "\n")
        pages = json.dumps(self.files, separators=(",", ":"))
        script = f"window.unskewPages = {pages};\nwindow.unskewSaved = {saved};\n"
        write_file(place / "data" / f"{stem}.js", script)
        entries = [name for name in MODULE.findall(text) if name != "base"] or ["base"]
        for entry in entries:
            made = bundle(entry, lambda name: _static(name).decode())
            write_file(place / "static" / f"{entry}.js", made)
        scripts = [f"data/{stem}.js", "static/copy.js", *(f"static/{entry}.js" for entry in entries)]
        text = MODULE.sub("", text)
        loads = "".join(f'<script defer src="{html.escape(address)}"></script>\n' for address in scripts)
        text = text.replace("</head>", f'<link rel="stylesheet" href="static/copy.css">\n{loads}</head>', 1)
        text = LINK.sub(self._relative, text)
        write_file(place / page.file, text)

    def _relative(self, found: re.Match[str]) -> str:
        address = html.unescape(found[2])
        if address.startswith("/static/"):
            self.modules.add(address.removeprefix("/static/"))
            return f'{found[1]}="{found[2][1:]}"'
        if address.startswith("/compare/export/"):
            kind = address.rsplit("/", 1)[-1]
            return f'{found[1]}="data/compare.{"tex" if kind == "latex" else kind}"'
        return f'{found[1]}="{html.escape(self.files.get(address, "index.html"))}"'

    def _write_static(self, place: Path, name: str) -> None:
        content = _static(name)
        if name == "vega.js":
            # as a plain script its names would be the page's
            content = b"(() => {\n" + content + b"\n})();\n"
        target = place / "static" / name
        if not target.exists():
            write_file(target, content)

    def _write_tables(self, place: Path) -> None:
        """The comparison as figures and tables, which a studio makes when they are asked for."""
        if not any(page.address == "/compare" for page in self.pages):
            return
        compared = Comparer(self.studio.folder).compared()
        for kind in FORMATS:
            content, _, name = exported(compared, kind)
            write_file(place / "data" / name, content)

    def _answers(self, page: CopiedPage) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for question, addresses in page.asks.items():
            if question.startswith("/run-rounds/"):
                found[question] = self._rounds(question)
                continue
            for address in addresses:
                status, content = self.get(address)
                if status == 200:
                    found[question] = json.loads(content)
        if page.address == "/runs":
            status, content = self.get("/runs/data?since=0")
            if status == 200:  # what the page came with is all there is
                found["/runs/data"] = json.loads(content) | {"rows": [], "gone": [], "all": False}
        return found

    def _rounds(self, question: str) -> list[Any]:
        """All rounds of a run, which a studio gives in pieces."""
        found: list[Any] = []
        while True:
            first = found[-1]["round"] + 1 if found else 1
            status, content = self.get(f"{question}?first={first}")
            more = [one for one in json.loads(content) if one["round"] >= first] if status == 200 else []
            if not more:
                return found
            found += more

    def get(self, address: str, accept: str = "application/json") -> tuple[int, bytes]:
        """What the studio answers, without a network."""
        asked = _get(self.app, self.studio.door, address, accept)
        with ThreadPoolExecutor(1) as aside:  # a notebook has a loop of its own in this thread
            return aside.submit(asyncio.run, asked).result()


async def _get(app: ASGIApp, door: Door, address: str, accept: str) -> tuple[int, bytes]:
    path, _, query = address.partition("?")
    headers = {"host": f"{HERE}:{door.port}", HEADER: door.token, "accept": accept}
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "server": (HERE, door.port),
        "client": (HERE, 0),
    }
    status, content = 500, b""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, content
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            content += message.get("body", b"")

    await app(scope, receive, send)
    return status, content


def in_address(name: str) -> str:
    """As a browser's encodeURIComponent writes it."""
    return quote(name, safe="-_.!~*'()")


def _as_written(address: str) -> str:
    """A page's address as scripts write it: brackets stay."""
    return "/".join(in_address(unquote(part)) for part in address.split("/"))


def _static(name: str) -> bytes:
    found = served_file(name)
    if found is None:
        raise RunFailed(f"the studio has no file {name}")
    return found[0]


def _file_of(name: str, taken: set[str]) -> str:
    """A file name for a run's page: its own words, and a number where two would be the same."""
    stem = "run-" + (re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "folder")[:80]
    file, at = f"{stem}.html", 2
    while file.lower() in taken:
        file, at = f"{stem}-{at}.html", at + 1
    taken.add(file.lower())
    return file
