"""What several commands share: arguments, options, those that say how a model is fitted, and the screen of tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vedute.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

F = TypeVar("F", bound=Callable[..., Any])
WIDE = 160  # characters of a table in a file or pipe, which has no width of its own


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


def default_of(name: str) -> str:
    """How the help of an option tells its default."""
    from vedute.run.settings import Settings

    return f"[default: {getattr(Settings, name)}]"


def _tolerance(ctx: click.Context, param: click.Parameter, value: str | None) -> float | str | None:
    """A number, or the word "none", which stays a word: None means that the option was not given."""
    if value is None or value.lower() == "none":
        return value and "none"
    try:
        return float(value)
    except ValueError:
        raise click.BadParameter(f"{value!r} is neither a number nor 'none'", ctx, param) from None


def settings_options(function: F) -> F:
    """Options with the names of :class:`Settings`; one that is not given is None."""
    from vedute.run.settings import PRESETS

    for option in reversed(
        (
            click.option(
                "--components", "n_components", type=int, metavar="Q", help="Latent components. [default: the study's]"
            ),
            click.option("--rounds", type=int, metavar="R", help=f"Most rounds to run. {default_of('rounds')}"),
            click.option(
                "--iterations", type=int, metavar="N", help=f"Local iterations a round. {default_of('iterations')}"
            ),
            click.option(
                "--first-iterations",
                type=int,
                metavar="N",
                help=f"Local iterations in round 1. {default_of('first_iterations')}",
            ),
            click.option(
                "--preset", type=click.Choice(PRESETS), help=f"Variant of the algorithm. {default_of('preset')}"
            ),
            click.option(
                "--tol",
                callback=_tolerance,
                metavar="T",
                help=f"Stop when a round changes less; 'none': never. {default_of('tol')}",
            ),
            click.option(
                "--seed",
                type=click.IntRange(min=0),
                metavar="S",
                help=f"Seed of the starting values. {default_of('seed')}",
            ),
        )
    ):
        function = option(function)
    return function


def given_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the user gave; the word "none" is a setting of its own."""
    return {name: None if value == "none" else value for name, value in options.items() if value is not None}


def screen() -> Console:
    """What tables are printed to: as wide as the terminal, or wide."""
    from rich.console import Console

    class Screen(Console):
        """Standard output; a reader who goes away is left to the command line, which knows the exit status."""

        def on_broken_pipe(self) -> None:
            """Do not leave from here."""
            raise BrokenPipeError

    return Screen(width=None if sys.stdout.isatty() else WIDE)
