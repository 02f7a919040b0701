"""A group of commands, each in a module of its own, or in another package, that is loaded when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from vedute.errors import UserError

PLUGINS = "vedute.commands"  # the group of entry points by which other packages bring commands


@dataclass(frozen=True)
class Plugin:
    """What is known of a command of another package before that is imported, or where it is not installed."""

    about: str  # its line in the help
    package: str  # what brings it
    install: str  # how that is installed


class Elsewhere(click.Command):
    """A command of another package, which is looked up by its entry point when the command is run."""

    def __init__(self, name: str, plugin: Plugin) -> None:
        super().__init__(name, short_help=plugin.about)
        self.plugin = plugin

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """The context of the command itself, which click then runs."""
        from importlib.metadata import entry_points

        for found in entry_points(group=PLUGINS, name=str(self.name)):
            command: click.Command = found.load()
            return command.make_context(info_name, args, parent, **extra)
        raise UserError(
            f"'vedute {self.name}' comes with the package {self.plugin.package}, which is not installed; "
            f"{self.plugin.install}"
        )


class Lazy(click.Group):
    """A command NAME is the function ``command`` of the module PACKAGE.NAME, or that of a plugin."""

    def __init__(
        self,
        *args: Any,
        package: str = "",
        names: tuple[str, ...] = (),
        plugins: Mapping[str, Plugin] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.package, self.names, self.plugins = package, names, plugins or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order in which they are needed."""
        return list(self.names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, or None."""
        if cmd_name not in self.names:
            return None
        if cmd_name in self.plugins:
            return Elsewhere(cmd_name, self.plugins[cmd_name])
        found: click.Command = importlib.import_module(f"{self.package}.{cmd_name}").command
        return found
