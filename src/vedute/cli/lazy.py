"""A group of commands, each in a module of its own that is loaded when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any

import click


class Lazy(click.Group):
    """A command NAME is the function ``command`` of the module PACKAGE.NAME."""

    def __init__(self, *args: Any, package: str = "", names: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.package, self.names = package, names

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order in which they are needed."""
        return list(self.names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, or None."""
        if cmd_name not in self.names:
            return None
        found: click.Command = importlib.import_module(f"{self.package}.{cmd_name}").command
        return found
