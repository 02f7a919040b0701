"""What the commands share that run until they are stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

import click

unit_option = click.option("--print-unit", is_flag=True, help="Print a systemd unit that runs this command, and end.")


@contextmanager
def running() -> Iterator[None]:
    """Ctrl-C, and what a service manager sends, end the command well."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        click.echo("stopped")
    finally:
        signal.signal(signal.SIGTERM, before)
