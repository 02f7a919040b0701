"""The page of commands: what ``vedute COMMAND --help`` prints at the time of building."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from vedute.cli.app import vedute

MARK = "<!-- every command -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the help of every command where the page asks for it."""
    return markdown.replace(MARK, "\n".join(sections())) if MARK in markdown else markdown


def sections() -> Iterator[str]:
    """A heading and the help of each command, groups before their members."""
    root = click.Context(vedute, info_name="vedute", **vedute.context_settings)
    for context in _walk(root):
        if context is not root:
            yield f"\n## {context.command_path}\n\n```text\n{context.command.get_help(context)}\n```\n"


def _walk(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            found = context.command.get_command(context, name)
            assert found is not None
            yield from _walk(found.make_context(name, [], context, resilient_parsing=True))
