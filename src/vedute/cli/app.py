"""The command ``vedute``: which commands there are, and how every ending becomes an exit status."""

from __future__ import annotations

import importlib
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any, TextIO

import click

from vedute.errors import ConvergenceWarning, DataWarning, UserError
from vedute.version import __version__

COMMANDS = (
    "demo",
    "check",
    "fit",
    "select",
    "project",
    "impute",
    "harmonise",
    "score",
    "sample",
    "report",
    "audit",
    "paper",
    "federation",
    "completion",
)  # NAME is the function ``command`` of the module vedute.cli.NAME, unless it is below or in another package
PLUGINS = "vedute.commands"  # the group of entry points by which other packages bring commands
OUR_FAULT, USERS_TURN, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141


@dataclass(frozen=True)
class Plugin:
    """What is known of a command of another package before that is imported, or where it is not installed."""

    about: str  # its line in the help
    package: str  # what brings it
    install: str  # how that is installed


ELSEWHERE = {
    "paper": Plugin(
        "Run the paper's experiments again, its own numbers beside ours.",
        "vedute-reproduction",
        "install it from the folder of vedute's source: pip install ./reproduction",
    )
}


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
    """The commands, each loaded when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order in which they are needed."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One command, or None."""
        if cmd_name not in COMMANDS or cmd_name in self.commands:
            return super().get_command(ctx, cmd_name)
        if cmd_name in ELSEWHERE:
            return Elsewhere(cmd_name, ELSEWHERE[cmd_name])
        found: click.Command = importlib.import_module(f"vedute.cli.{cmd_name}").command
        return found


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"vedute {__version__}")
        ctx.exit()


@click.command(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--debug", is_flag=True, help="Show where an unexpected error came from.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Show it.")
def vedute(debug: bool) -> None:
    """Model the data of several hospitals together, while their patients' rows stay at home.

    A study file (TOML) names views, centers and files. Look at the data with 'check', fit a model into a run folder
    with 'fit', and use it with 'project', 'impute', 'harmonise', 'score' and 'sample'. 'demo' shows all of it.

    Exit status: 0 done, 2 you have to change something, 1 a fault of ours, 130 interrupted.
    """


@vedute.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the shell completion; put it into your start-up file.

    \b
    bash:  vedute completion bash >> ~/.bashrc
    zsh:   vedute completion zsh >> ~/.zshrc
    fish:  vedute completion fish > ~/.config/fish/completions/vedute.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    root = click.get_current_context().find_root().command
    click.echo(found(root, {}, "vedute", "_VEDUTE_COMPLETE").source())


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status."""
    words = sys.argv[1:] if args is None else list(args)
    sys.exit(run(words))


def run(words: Sequence[str]) -> int:
    """Run one command; the exit status."""
    debug = "--debug" in words
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name that the screen cannot show is no reason to fail
    with warnings.catch_warnings():
        _plain_warnings(debug)
        try:
            status = vedute.main(args=list(words), prog_name="vedute", standalone_mode=False)
            sys.stdout.flush()
            return status if isinstance(status, int) else 0
        except click.ClickException as error:
            error.show()
            return USERS_TURN
        except (click.Abort, KeyboardInterrupt):
            return _say("interrupted; nothing is half-written", INTERRUPTED, debug)
        except UserError as error:
            return _say(str(error), USERS_TURN, debug)
        except BrokenPipeError:
            _forget_stdout()
            return PIPE_CLOSED
        except OSError as error:
            return _say(f"{error.filename or 'the system'}: {error.strerror or error}; mend that", USERS_TURN, debug)
        except UnicodeEncodeError as error:
            name = error.object[error.start : error.end]
            remedy = "set PYTHONUTF8=1, or a locale with UTF-8"
            return _say(f"{name!a} cannot stand in a file name under this locale; {remedy}", USERS_TURN, debug)
        except MemoryError:
            return _say("the memory is used up; fit fewer columns, or use a larger machine", USERS_TURN, debug)
        except Exception as error:
            hint = "" if debug else "; run the same command with 'vedute --debug ...' and send us what it prints"
            return _say(f"a fault of vedute, not yours ({type(error).__name__}: {error}){hint}", OUR_FAULT, debug)


def _say(message: str, status: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    click.echo(f"vedute: {message}", err=True)
    return status


def _forget_stdout() -> None:
    """The reader of our output has gone; Python must not complain about it at exit."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain_warnings(debug: bool) -> None:
    """Our own warnings as one line each; those of libraries tell a user nothing."""
    if not debug:
        warnings.simplefilter("ignore")
    for kind in (DataWarning, ConvergenceWarning):
        warnings.simplefilter("always", kind)

    def show(
        message: Any, category: type[Warning], filename: str, lineno: int, file: TextIO | None = None,
        line: str | None = None,
    ) -> None:  # fmt: skip
        sys.stderr.write(f"vedute: warning: {message}\n")  # click.echo would write across a bar that is on the screen

    warnings.showwarning = show
