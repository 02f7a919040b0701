"""Canonical fits give the same bits in every mode, and where they were written down on such a machine, those bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import vedute


def test_canonical_fits_keep_their_bits() -> None:
    source = Path(vedute.__file__).parents[1]  # also where another vedute is installed
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("guard.py"))],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    wrong = [line for line in done.stdout.splitlines() if not line.endswith(": ok")]
    assert done.returncode == 0, "\n".join([*wrong, done.stderr])
    assert "all the same" in done.stdout
