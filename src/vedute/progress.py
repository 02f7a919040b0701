"""A progress bar for the rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vedute.run.protocol import Progress


@contextmanager
def progress_bar(rounds: int, *, shown: bool) -> Iterator[Callable[[Progress], None] | None]:
    """What to call after each round; a bar on standard error while it lasts, or nothing."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    parts = (TextColumn("round {task.completed}/{task.total}"), BarColumn(), TextColumn("{task.description}"))
    with Bar(*parts, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=rounds)

        def on_round(progress: Progress) -> None:
            last = progress.history[-1]
            bar.update(task, completed=last.round, description=f"change {last.change:.1e}")

        yield on_round
