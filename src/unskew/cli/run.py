"""``unskew run`` and ``unskew resume``."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unskew.cli.app import app
from unskew.cli.options import Json
from unskew.cli.settings import effective, with_settings, written
from unskew.cli.stopping import HeedStop, Interrupted
from unskew.garbage import garbage_put_off
from unskew.readings import Reading, validation_key

if TYPE_CHECKING:
    from unskew.runs.folder import RunFolder
    from unskew.runs.spec import Spec

Experiment = Annotated[
    Path | None, typer.Argument(metavar="[EXPERIMENT.toml]", help="Settings from a file; flags overrule it.")
]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="The run's folder; default: runs/<name>.")
]


@app.command()
@with_settings
def run(
    experiment: Experiment = None,
    out: Out = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check everything a run would, print the effective settings and stop."
        ),
    ] = False,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Train a method on a partition of a data set, with a log that can be resumed."""
    spec, sweep = effective(experiment, settings)
    if spec.sites is not None:
        from unskew.runs.given import refuse_dealing

        refuse_dealing(spec, written(settings))
    from unskew.runs.checks import check_words
    from unskew.runs.folder import check_folder

    if dry_run:
        from unskew.runs.rehearsal import rehearse

        check_words(spec)
        check_folder(out or default_folder(spec))
        spec = rehearse(spec)
        typer.echo(json.dumps(spec.as_dict()) if as_json else everything(spec), nl=as_json)
        return
    if sweep:
        from unskew.errors import InputError

        raise InputError(f"{experiment} has a [sweep] table; run it with `unskew sweep {experiment}`")
    folder = out or default_folder(spec)
    check_folder(folder)
    check_words(spec)  # the run would refuse them, too, but after torch is loaded
    with garbage_put_off():
        from unskew.runs.running import run as start

    with hint_when_interrupted(folder):
        show(start(spec, out=folder, progress=not as_json, watch=[HeedStop()]).folder, as_json)


RENEWED = {
    "rounds": "How many rounds it is to have in all: to the bits of a run planned so.",
    "stop": "End it once this holds, such as 'accuracy > 0.9'; none: go on.",
    "patience": "End it after so many rounds without a better accuracy; none: go on.",
    "budget": "End it before it goes beyond this: 500MB, 10min; none: go on.",
    "ray": "Another Ray cluster: host:port, or auto for the one here.",
    "workers": "Worker processes on a CPU.",
    "device": "Another device of the kind it began on: cuda:1 for cuda.",
    "sites": "Where the folder of its federation lies now.",
    "deadline": "Seconds that a leg waits for a site.",
    "checkpoint": "Seconds between checkpoints; 0 writes one every round.",
    "data_folder": "Where data sets lie now.",
    "dataset": "Where its own data lies now.",
    "partition": "Where its saved partition lies now.",
    "metrics": "What is reported; best, target and leaderboards go by the first.",
    "target": "Accuracies, or values of the first metric, whose first round is reported.",
    "keep": "Rounds to come whose model stays in the folder.",
    "method_label": "What reports call its method.",
}
"""What a resume may change, in its own words."""


@app.command()
@partial(with_settings, shown=RENEWED)
def resume(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="The folder of a run that was stopped, or is to be longer.")
    ],
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Go on with a run that was stopped; the numbers are those of a run never stopped.

    --rounds makes a run longer, also one that is done. --stop, --patience and --budget say anew when it ends. What else
    may change cannot change a number.
    """
    from unskew.runs.over import is_over
    from unskew.runs.resuming import ask_to_resume

    with hint_when_interrupted(folder):
        asked = ask_to_resume(folder, **written(settings))
        if not is_over(asked):
            with garbage_put_off():
                from unskew.runs.running import go_on

            go_on(asked, progress=not as_json, watch=[HeedStop()])
        show(asked.folder, as_json)


@contextlib.contextmanager
def hint_when_interrupted(folder: Path) -> Iterator[None]:
    """Ctrl-C ends a run with code 130, and with the command that goes on with it."""
    try:
        yield
    except KeyboardInterrupt:
        begun = (folder / "spec.json").exists()
        typer.echo(
            f"interrupted; go on with it by `unskew resume {shlex.quote(str(folder))}`"
            if begun
            else "interrupted",
            err=True,
        )
        raise Interrupted from None


def everything(spec: Spec) -> str:
    """All settings as TOML, those at their defaults too."""
    from unskew.runs.spec import toml_value

    lines = (f"{k} = {toml_value(v)}" for k, v in spec.as_dict().items() if v is not None)
    return "\n".join(lines) + "\n"


def default_folder(spec: Spec) -> Path:
    """runs/<data>-<method>-<partition>-s<seed>, numbered where it is taken by other settings."""
    words = (Path(spec.dataset).stem, spec.method, spec.partition, f"s{spec.seed}")
    stem = re.sub(r"[^A-Za-z0-9.+-]+", "_", "-".join(words)).strip("_")
    path, number = Path("runs") / stem, 1
    while path.exists():
        number += 1
        path = Path("runs") / f"{stem}-{number}"
    return path


def _spread(alone: dict[str, Any]) -> str:
    """How far clients on their own are apart."""
    left = alone["of"] - alone["clients"]
    said = f"sd {alone['sd']:.4f} over clients, from {alone['min']:.4f} to {alone['max']:.4f}"
    return said + (f"; {left} of {alone['of']} clients had no turn or no sample" if left else "")


def _best(best: dict[str, Any], first: Reading) -> str:
    """The best round, and on what it was chosen."""
    said = f"{first.say(best.get(first.name))} at round {best['round']}, chosen on "
    if best.get("chosen_on", "test") == "test":  # which results of earlier versions do not say
        return said + "the test set"
    return said + f"validation ({first.say(best.get(validation_key(first.key)))})"


def _tested(tested: dict[str, Any]) -> str:
    """How clients do on their own test samples."""
    if not tested["clients"]:
        return "nobody was tested: no client has both trained and test samples of its own"
    own = "one client's own" if tested["clients"] == 1 else f"{tested['clients']} clients' own"
    said = f"{tested['mean']:.4f} mean test accuracy on {own} samples, sd {tested['sd']:.4f}"
    worst = min(tested.get("each") or [], key=lambda one: one["accuracy"], default=None)
    return said + f", worst {tested['min']:.4f}" + (f" (client {worst['client']})" if worst else "")


def _travelled(totals: dict[str, Any]) -> str:
    down, up = (_bytes(totals[f"bytes_travelled_{way}"]) for way in ("down", "up"))
    return f"{down} to the sites and {up} back, as they were sent"


def _bytes(count: float) -> str:
    """In MB; of less than one as a report has it, so that a small model's traffic is no 0.0."""
    from unskew.report.results.words import size

    return f"{count / 1e6:,.1f} MB" if count >= 1e6 else size(count)


def _clients(count: int) -> str:
    return f"{count} client{'s' * (count != 1)}"


def _lost_sites(away: dict[str, int]) -> str:
    return ", ".join(
        f"{site} in {rounds} rounds" if rounds > 1 else f"{site} in 1 round" for site, rounds in away.items()
    )


def show(ended: RunFolder, as_json: bool) -> None:
    """What came out, in a table or as one JSON object."""
    result = ended.result
    if as_json:
        typer.echo(json.dumps(result | {"folder": str(ended.path)}))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from unskew.runs.judged_by import chosen

    console = Console()
    table = Table(show_header=False, box=None, padding=(0, 2))
    totals, skewed, final = result["totals"], result.get("skew"), result["final"]
    moved = totals["bytes_down"] + totals["bytes_up"] + totals["bytes_peer"]
    beside = totals.get("bytes_measuring_down", 0) + totals.get("bytes_measuring_up", 0)
    only = sum(line.get("trained_only", 0) for line in ended.lines)
    alone = result.get("own_models")
    first, *others = chosen(result["metrics"], result["data"])
    judged = (
        f"global test {first.title}"
        if alone is None
        else f"mean global test {first.title} of {alone['clients']} clients"
    )
    if "verdict" in result:
        console.print(f"[bold yellow]{escape(result['verdict'])}[/]", highlight=False, soft_wrap=True)
    rows = {
        "final": f"[bold]{first.say(final.get(first.name))}[/] {judged} after round {final['round']}",
        **({"and": ", ".join(f"{r.title} {r.say(final.get(r.name))}" for r in others)} if others else {}),
        **({"stopped": escape(result["stopped"]["said"])} if "stopped" in result else {}),
        **({"spread": _spread(alone)} if alone and alone["clients"] else {}),
        "best": _best(result["best"], first),
        **({"clients": _tested(tested)} if (tested := result.get("client_tests")) else {}),
        "skew": "not known: label counts were not asked for"
        if skewed is None
        else f"EMD {skewed['emd']:.3f}, sparsity {skewed['sparsity']:.2f}, {_clients(skewed['clients'])}",
        "cost": f"{_bytes(moved)} moved, {totals['sample_steps']:,} sample-steps, {totals['wall_s']:.1f} s",
        **({"travelled": _travelled(totals)} if "bytes_travelled_up" in totals else {}),
        **({"measuring": f"{_bytes(beside)} more, to measure"} if beside else {}),
        **({"air": f"{totals['air_s']:,.1f} s on the air"} if "air_s" in totals else {}),
        "answered": f"{totals['answered']} of {totals['asked']} asked"
        + (f", {only} trained without uploading" if only else "")
        + (f", {result['rejected']} rejected (not finite)" if result["rejected"] else "")
        + (f", {result['late']} late" if result["late"] else ""),
        **({"lost": _lost_sites(away)} if (away := result.get("rounds_without")) else {}),
        "discloses": ", ".join(result["discloses"]) or ("model updates only" if alone is None else "nothing"),
    }
    for name, why in result.get("blanks", {}).items():
        if name in result["metrics"]:
            rows[f"no {name}"] = why
    for target, round_ in result["rounds_to_target"].items():
        rows[f"reaches {target}"] = f"round {round_}" if round_ else "never"
    if "gamma" in result:
        found = result["gamma"]
        shown = "not finite" if found["gamma"] is None else f"{found['gamma']:.4f}"
        some = (
            f", {found['clients']} drawn of {of:,} clients"
            if (of := found["of_clients"]) > found["clients"]
            else ""
        )
        rows["gamma"] = f"{shown} (thesis eq. 3.1, {found['steps']} steps{some})"
    for name, value in rows.items():
        table.add_row(name, value)
    console.print(table)
    if result["rejected"] > totals["asked"] / 2:
        said = "most answers were not finite and were refused, so the model is hardly trained; try a smaller --lr"
        Console(stderr=True, soft_wrap=True).print(f"[bold yellow]warning:[/] {said}", highlight=False)
    folder = str(ended.path)
    following = escape(f"unskew report {shlex.quote(folder)}")
    console.print(f"[dim]{escape(folder)}[/]   next: {following}", soft_wrap=True, highlight=False)
