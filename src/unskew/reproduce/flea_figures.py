"""FLea's figures 2, 3 and 9, of runs: accuracy by the size of clients, what scarcity does to features, what leaks.

What is computed needs torch and numpy, so a GPU machine can do it; pictures are drawn where the drawing libraries are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unskew.core.method import Method
from unskew.errors import InputError
from unskew.files import write_file
from unskew.reproduce.making import Row, Wanted
from unskew.runs.folder import read_folder


def figure2(wanted: Wanted) -> list[Row]:
    """The best accuracy of every method, by how many samples clients hold."""
    from unskew.report.results.gather import gather

    return [
        {
            "samples of a client": round(record.data["samples"] / record.data["clients"]),
            "method": f"`{record.spec.method}`",
            "best": f"{record.best['global_test_accuracy']:.2%}",
        }
        for record in gather([wanted.runs])
        if record.judged
    ]


def draw_figure2(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    from unskew.report.drawing import save_chart
    from unskew.report.results.gather import gather
    from unskew.reproduce.overfitting_pictures import accuracy_by_size

    return save_chart(accuracy_by_size(gather([runs])), picture, "FLea, figure 2")


def figure3(wanted: Wanted) -> list[Row]:
    """Davies-Bouldin scores of local and averaged models, by the size of clients."""
    from unskew.reproduce.overfitting import overfitting

    small: dict[str, Any] = {"groups": ("30", "10+5"), "test": 50, "accuracy": 0.0}
    small |= {"progress": False, "pictures": False}
    options = small if wanted.quick else dict(wanted.options)
    (run,) = run_folders(wanted.runs)
    record = overfitting(run, data_folder=wanted.data_folder, **options)
    before = record["start"]
    rows: list[Row] = [
        {
            "samples of a client": "before",
            "accuracy": f"{before['test_accuracy']:.1%}",
            **dict.fromkeys(("local, own data", "local, test", "average, own data"), ""),
            "average, test": f"{before['test_db']:.2f}",
        }
    ]
    for group in record["groups"]:
        local, average = group["local"], group["average"]
        rows.append(
            {
                "samples of a client": group["group"],
                "accuracy": "",
                "local, own data": f"{local['train_db']:.2f}",
                "local, test": f"{local['test_db']:.2f}",
                "average, own data": f"{average['train_db']:.2f}",
                "average, test": f"{average['test_db']:.2f}",
            }
        )
    return rows


def draw_figure3(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    """Bars of the scores, and beside it t-SNE of the features, whose name ends in -tsne."""
    from unskew.reproduce.overfitting import FOLDER
    from unskew.reproduce.overfitting_pictures import draw

    (run,) = run_folders(runs)
    for drawn, file in zip(
        draw(run / FOLDER), (picture, picture.with_stem(f"{picture.stem}-tsne")), strict=True
    ):
        write_file(file, drawn.read_bytes())
    return picture


def figure9(wanted: Wanted) -> list[Row]:
    """What leaks of what is shared: correlation, reconstruction and context, of every kept model. Attacked once."""
    rows: list[Row] = []
    for run in run_folders(wanted.runs):
        record = attacked(run, wanted)
        if not record.get("reconstruction"):
            continue
        seen, correlated = (
            {(told["view"], told["round"]): told for told in (record.get(name) or {}).get(key, [])}
            for name, key in (("context", "results"), ("correlation", "models"))
        )
        for told in record["reconstruction"]["results"]:
            at = told["view"], told["round"]
            found = [f"{point['accuracy']:.0%}" for point in seen.get(at, {}).get("points", [])]
            rows.append(
                {
                    "shared": f"`{record['method']}`, {told['view']}, round {told['round']}",
                    "c": f"{correlated[at]['mean']:.2f}" if at in correlated else "",
                    "MSE": f"{told['mse']:.4f}",
                    "PSNR": f"{told['psnr']:.1f} dB",
                    "SSIM": f"{told['ssim']:.2f}" if told.get("ssim") is not None else "",
                    "context found": ", ".join(found),
                }
            )
    return rows


def draw_figure9(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    from unskew.privacy.laboratory import read
    from unskew.report.drawing import save_chart
    from unskew.reproduce.flea_figure9 import figure9 as panels

    records = [record for record in map(read, run_folders(runs)) if record is not None]
    return save_chart(panels(records), picture, "FLea, figure 9")


def attacked(run: Path, wanted: Wanted) -> dict[str, Any]:
    """What attacks found of a run; they are made where nobody made them yet."""
    from unskew.privacy.context import Context
    from unskew.privacy.laboratory import attack, read
    from unskew.privacy.reconstruction import Reconstruction

    if (known := read(run)) is not None:
        return known
    options: dict[str, Any] = (
        {"epochs": 1, "samples": 32, "examples": (4, 8)} if wanted.quick else dict(wanted.options)
    )
    numbers = tuple(options.pop("examples"))
    shared = ("exposure", "correlation", "reconstruction", "context")
    found = attack(
        run,
        only=shared if shares(run) else ("exposure",),
        reconstruction=Reconstruction(**options),
        context=Context(examples=numbers, repeats=1, steps=4, test=10)
        if wanted.quick
        else Context(examples=numbers),
        data_folder=wanted.data_folder,
        progress=not wanted.quick,
    )
    return found.record


def run_folders(folder: Path) -> Sequence[Path]:
    """The folders of runs in or below a folder, in order of their names."""
    found = sorted(file.parent for file in folder.rglob("spec.json"))
    if not found:
        raise InputError(f"{folder} holds no run: there is no spec.json in or below it")
    return found


def shares(run: Path) -> bool:
    """Whether a run's method shows others anything of clients' data."""
    return any(part.sends for part in Method.parse(read_folder(run)[1].method).parts)
