"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from vedute.errors import UserError

F = TypeVar("F", bound=Callable[..., Any])


class _FilePath(click.Path):
    """Any path; whoever opens the file tells the remedy as well. An empty one would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("is empty; give a path", param, ctx)
        return super().convert(value, param, ctx)


FilePath = _FilePath(path_type=Path, readable=False)

study_argument = click.argument("study", type=FilePath)
run_argument = click.argument("run", type=FilePath)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
force_option = click.option("--force", is_flag=True, help="Replace what is there.")
using_option = click.option(
    "--using",
    type=click.Choice(["own", "adapt", "global"]),
    default="own",
    show_default=True,
    help="Parameters for each center: its own; the same, but a center that is not in the model first fits itself "
    "under the global distribution; or the global distribution for all.",
)


def out_option(what: str) -> Callable[[F], F]:
    """``--out``, required."""
    return click.option("--out", type=FilePath, required=True, help=what)


def refuse_existing(out: Path, force: bool) -> None:
    """Nothing is overwritten without --force."""
    if out.exists() and not force:
        raise UserError(f"{out}: exists already; choose another name, or replace it with --force")
    if not out.parent.exists():
        raise UserError(f"{out}: there is no folder {out.parent}; create it, or choose another place with --out")
