"""FLea's figures 2, 3 and 9 remade from runs: ``python -m unskew.reproduce.flea_figures --help``.

What is computed needs torch and numpy, so a GPU machine can do it; what is drawn is drawn wherever the drawing
libraries are, from the folders that come back.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from unskew.core.method import Method
from unskew.errors import InputError
from unskew.runs.folder import read_folder
from unskew.runs.old_flags import with_new_flags

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

Folder = Annotated[Path, typer.Argument(metavar="RUNS", help="A folder that holds the runs, at any depth.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="The picture; default: in RUNS.")]
DataFolder = Annotated[str | None, typer.Option("--data-folder", help="Where published files lie.")]


@app.command()
def nine(
    runs: Folder,
    out: Out = None,
    data_folder: DataFolder = None,
    optimizer: Annotated[
        str, typer.Option(help="Of the decoder: adam, or sgd as in the authors' code.")
    ] = "adam",
    samples: Annotated[int | None, typer.Option(help="Samples of the decoder; default: all.")] = None,
    epochs: Annotated[int, typer.Option(help="Passes of the decoder.")] = 20,
    examples: Annotated[
        str, typer.Option(help="Numbers of examples of the detectors.")
    ] = "10,30,100,300,1000,3000,10000",
    again: Annotated[bool, typer.Option(help="Attack again what was attacked before.")] = False,
) -> None:
    """Figure 9: exposure, correlation, reconstruction and context, of every run in a folder."""
    from unskew.privacy.context import Context
    from unskew.privacy.laboratory import attack, drawable, read
    from unskew.privacy.reconstruction import Reconstruction

    numbers = tuple(int(word) for word in examples.split(","))
    records = []
    for run in run_folders(runs):
        record = None if again else read(run)
        if record is None:
            print(f"attacking {run}", file=sys.stderr, flush=True)
            how = Reconstruction(epochs=epochs, samples=samples, optimizer=optimizer)  # type: ignore[arg-type]
            record = attack(
                run,
                only=("exposure", "correlation", "reconstruction", "context")
                if shares(run)
                else ("exposure",),
                reconstruction=how,
                context=Context(examples=numbers),
                data_folder=data_folder,
            ).record
        records.append(record)
    if drawable():
        from unskew.report.drawing import save_chart
        from unskew.reproduce.flea_figure9 import figure9

        print(save_chart(figure9(records), out or runs / "figure9.png", "FLea, figure 9"))


@app.command()
def three(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run with a kept model of 40% accuracy.")],
    groups: Annotated[
        str, typer.Option(help="Sizes of clients, own or own+shared.")
    ] = "5000,500,100,100+1000",
    accuracy: Annotated[float, typer.Option(help="Of the global model to start from.")] = 0.4,
    test: Annotated[int, typer.Option(help="Test samples to judge by.")] = 2000,
    seed: int = 0,
    data_folder: DataFolder = None,
    draw: Annotated[bool, typer.Option(help="Only draw what was computed before.")] = False,
) -> None:
    """Figure 3: Davies-Bouldin scores and t-SNE of local and averaged models, by the size of clients."""
    from unskew.privacy.overfitting import FOLDER, overfitting

    if draw:
        from unskew.report.attack.overfitting_pictures import draw as drawn

        print("\n".join(map(str, drawn(run / FOLDER))))
        return
    print(
        json.dumps(
            overfitting(
                run, groups.split(","), accuracy=accuracy, test=test, seed=seed, data_folder=data_folder
            ),
            indent=1,
        )
    )


@app.command()
def two(runs: Folder, out: Out = None) -> None:
    """Figure 2: accuracy against the size of clients, of every method."""
    from unskew.report.attack.overfitting_pictures import accuracy_by_size
    from unskew.report.drawing import save_chart
    from unskew.report.results.gather import gather

    print(save_chart(accuracy_by_size(gather([runs])), out or runs / "figure2.png", "FLea, figure 2"))


def run_folders(folder: Path) -> Sequence[Path]:
    """The folders of runs in or below a folder, in order of their names."""
    found = sorted(file.parent for file in folder.rglob("spec.json"))
    if not found:
        raise InputError(f"{folder} holds no run: there is no spec.json in or below it")
    return found


def shares(run: Path) -> bool:
    """Whether a run's method shows others anything of clients' data."""
    return any(part.sends for part in Method.parse(read_folder(run)[1].method).parts)


def main(arguments: list[str] | None = None) -> Any:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        words = with_new_flags(words, lambda said: print(f"warning: {said}", file=sys.stderr))
        return app(args=words, standalone_mode=False)
    except InputError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
