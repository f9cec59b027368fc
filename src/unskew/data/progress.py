"""A progress bar on the terminal, one plain line where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, total: int | None, in_bytes: bool = False) -> Iterator[Callable[[int], None]]:
    """Show how far a long job is on standard error; call what is given with each further amount done."""
    from rich import progress as rich_progress
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        console.print(what, markup=False, highlight=False, soft_wrap=True)
        yield lambda amount: None
        return
    amounts: tuple[rich_progress.ProgressColumn, ...] = (rich_progress.MofNCompleteColumn(),)
    if in_bytes:
        amounts = (rich_progress.DownloadColumn(), rich_progress.TransferSpeedColumn())
    columns = (rich_progress.TextColumn("{task.description}"), rich_progress.BarColumn(), *amounts)
    with rich_progress.Progress(
        *columns, rich_progress.TimeRemainingColumn(), console=console, transient=True
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda amount: bar.advance(task, amount)
