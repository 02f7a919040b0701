"""``vedute completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the shell completion; put it into your start-up file.

    \b
    bash:  vedute completion bash >> ~/.bashrc
    zsh:   vedute completion zsh >> ~/.zshrc
    fish:  vedute completion fish > ~/.config/fish/completions/vedute.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "vedute", "_VEDUTE_COMPLETE").source())
