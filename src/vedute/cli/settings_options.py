"""The options that say how a model is fitted, for every command that fits one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from vedute.run.settings import PRESETS, Settings

F = TypeVar("F", bound=Callable[..., None])
DEFAULTS = Settings(1)


def default_of(name: str) -> str:
    """How the help of an option tells its default."""
    return f"[default: {getattr(DEFAULTS, name)}]"


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
