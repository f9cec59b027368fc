"""What updates alone give away: gradient inversion of runs, by method and optimiser (docs/privacy.md)."""

from __future__ import annotations

from pathlib import Path

from unskew.reproduce.flea_figures import run_folders
from unskew.reproduce.making import Row, Wanted
from unskew.runs.folder import read_folder


def make(wanted: Wanted) -> list[Row]:
    """One step on one sample, three clients each: how like the sample what is found is, and the labels read."""
    rows = []
    for run in run_folders(wanted.runs):
        spec = read_folder(run)[1]
        found = _inverted(run, wanted)["one_step_one_sample"]
        read = round(found["labels_found"] * found["clients"])
        rows.append(
            {
                "method": f"`{spec.method}`, {spec.optimizer}",
                "PSNR": f"{found['psnr']:.1f} dB",
                "SSIM": f"{found['ssim']:.2f}",
                "labels read": f"{read} of {found['clients']}",
            }
        )
    return rows


def _inverted(run: Path, wanted: Wanted) -> Row:
    """What was found before, or is found now."""
    from unskew.privacy.inversion import Inversion
    from unskew.privacy.laboratory import attack, read

    known = read(run) or {}
    if "inversion" not in known:
        how = Inversion(steps=3, images=1, most=1) if wanted.quick else Inversion(**wanted.options)
        given = {"data_folder": wanted.data_folder, "progress": not wanted.quick}
        known = attack(run, only=("inversion",), inversion=how, **given).record  # type: ignore[arg-type]
    inverted: Row = known["inversion"]
    return inverted
