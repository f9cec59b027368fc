"""``unskew demo``: the main job on the data set that comes with unskew, ending in a table and a report."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from unskew.cli import options
from unskew.cli.app import app
from unskew.cli.stopping import HeedStop

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from unskew.report.results.leaderboard import Row
    from unskew.runs.sweep import Cell


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where runs and reports go.")
    ] = Path("runs/demo"),
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", "-j", help="Runs at a time; default: 2, at most one a core.", show_default=False
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Diagnose, train and compare on data that comes with unskew; ends with a table and a report."""
    from unskew.cli import demo_experiment as scene
    from unskew.report.diagnosis_page import save_diagnosis
    from unskew.report.results.comparison import compare
    from unskew.report.results.write import save
    from unskew.report.terminal import show
    from unskew.runs.sweep import allowed

    scene.check(out)
    at_a_time = allowed(processes)
    console = Console(quiet=as_json)
    found = scene.diagnosis()
    show(found, console)
    runs = len(scene.METHODS) * len(scene.SEEDS)
    console.print(
        f"\n[bold]Training[/] {len(scene.METHODS)} methods over {len(scene.SEEDS)} seeds: {runs} runs of "
        f"{scene.SETTINGS['rounds']} rounds, {at_a_time} at a time\n"
    )
    with Bars(not as_json) as bars:
        failed = scene.train(out, scene.METHODS, scene.SEEDS, scene.SETTINGS, at_a_time, bars)
    compared = compare(out, spread="sd")  # ± is one thing in all that the demo writes
    reports = {"diagnosis": out / "diagnosis.html", "report": out / "report.html"}
    save_diagnosis(found, reports["diagnosis"])
    save(compared, reports["report"], "html")
    if as_json:
        paths = {name: str(path) for name, path in reports.items()}
        typer.echo(json.dumps({"diagnosis": found.as_dict(), "comparison": compared.as_dict()} | paths))
        return 1 if failed else 0
    console.print(f"\n[bold]{escape(compared.headline.title)}[/]", highlight=False)
    console.print(escape(compared.headline.lead) + "\n", highlight=False)
    for _, rows in compared.tables:
        console.print(table(rows))
    console.print(
        f"[dim]accuracy: final global test accuracy in %, mean ± standard deviation of {len(scene.SEEDS)} seeds; "
        "classes have about as many test samples each, so balanced accuracy is the same: the report has that, too; "
        "p: paired t-test against fedavg; traffic: to, from and between clients[/]\n",
        highlight=False,
    )
    for name, path in reports.items():
        console.print(f"{name:<10} [bold]{escape(str(path))}[/]", soft_wrap=True, highlight=False)
    console.print(
        f"experiment [bold]{escape(str(out / scene.EXPERIMENT))}[/] [dim](change it, then run it with "
        "'unskew sweep FILE --out runs/mine')[/]",
        soft_wrap=True,
        highlight=False,
    )
    for cell in failed:
        console.print(f"[red]{escape(cell.name)} failed[/]: {escape(cell.error)}", highlight=False)
    return 1 if failed else 0


def table(rows: tuple[Row, ...]) -> Table:
    """What each method gained over the baseline, and what it cost in bytes and in what clients disclose."""
    from unskew.report.results import words
    from unskew.report.results.terminal import toned

    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    shown.add_column("method", style="bold", no_wrap=True)
    for head in ("accuracy", "to fedavg", "p", "traffic"):
        shown.add_column(head, justify="right", no_wrap=True)
    shown.add_column("a client discloses, beyond updates", style="dim")
    best = words.contenders(rows)[0]
    for row in rows:
        apart = row.difference
        spread = f" ± {100 * row.final.around:.1f}" if row.final.around is not None else ""
        accuracy = f"{100 * row.final.mean:.1f}{spread}"
        told = [what.rpartition(" (")[0] for what in row.group.counted[0].result["discloses"]]
        shown.add_row(
            escape(row.group.label),
            f"[bold]{accuracy}[/]" if row is best else accuracy,
            toned(row, words.signed(apart.mean)) if apart and apart.mean is not None else words.DASH,
            words.p_text(apart.p) if apart else words.DASH,
            words.DASH if row.group.bound == "upper" else words.size(row.bytes.mean),
            ", ".join(told),
        )
    return shown


class Bars:
    """How far every method is: a bar each on a terminal, a line a finished run elsewhere."""

    def __init__(self, speaks: bool):
        from unskew.progress import is_terminal, make_bar

        self.bars = make_bar(left=False) if speaks and is_terminal() else None
        self.told = speaks and self.bars is None
        self.tasks: dict[str, TaskID] = {}
        self.ended: list[str] = []
        self.seen: dict[str, tuple[int, float | None]] = {}  # cell -> rounds, accuracy
        self.looked = 0.0

    def __enter__(self) -> Bars:
        if self.bars is not None:
            self.bars.start()
        return self

    def __exit__(self, *problem: object) -> None:
        if self.bars is not None:
            self.bars.stop()

    def __call__(self, cells: list[Cell]) -> None:
        HeedStop().round_ended(None)
        now = [cell for cell in cells if cell.status in ("done", "failed") and cell.name not in self.ended]
        if not now and time.monotonic() - self.looked < 0.5:
            return
        self.looked = time.monotonic()
        for cell in [*now, *(cell for cell in cells if cell.status == "running")]:
            self.seen[cell.name] = _so_far(cell)
        for cell in now:
            self.ended.append(cell.name)
            if self.told:
                accuracy = self.seen[cell.name][1]
                said = f"accuracy {accuracy:.4f}" if cell.status == "done" else cell.status
                many = f"{len(self.ended)} of {len(cells)}"
                typer.echo(f"{many}: {cell.spec.method}, seed {cell.spec.seed}: {said}", err=True)
        if self.bars is not None:
            for method in dict.fromkeys(cell.spec.method for cell in cells):
                self._draw(self.bars, method, [cell for cell in cells if cell.spec.method == method])

    def _draw(self, bars: Progress, method: str, cells: list[Cell]) -> None:
        if method not in self.tasks:
            total = sum(cell.spec.rounds for cell in cells)
            self.tasks[method] = bars.add_task(method, total=total, said="rounds", start=False)
        seen = [self.seen[cell.name] for cell in cells if cell.name in self.seen]
        if seen:
            bars.start_task(self.tasks[method])
        judged = [accuracy for _, accuracy in seen if accuracy is not None]
        said = f"rounds, accuracy {sum(judged) / len(judged):.4f}" if judged else "rounds"
        bars.update(self.tasks[method], completed=sum(rounds for rounds, _ in seen), said=said)


def _so_far(cell: Cell) -> tuple[int, float | None]:
    """How many rounds a run has played, and its accuracy after them."""
    from unskew.runs.folder import read_folder

    lines = read_folder(cell.folder)[0].lines if (cell.folder / "spec.json").is_file() else []
    return len(lines), lines[-1].get("global_test_accuracy") if lines else None
