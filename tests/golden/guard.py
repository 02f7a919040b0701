"""The golden guard: canonical fits give the same bits in every mode, and the bits that were written down.

``python tests/golden/guard.py`` tells one line per case and exits with 1 if anything differs; with ``--write`` it
writes ``expected.json`` anew. The bits depend on the processor and on BLAS: where those are others than when they
were written down, the modes are compared with each other only.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from cases import CASES, Case, Modes, Parts, digest
from scipy import linalg, special
from threadpoolctl import threadpool_info, threadpool_limits

import vedute

EXPECTED = Path(__file__).with_name("expected.json")


def signature() -> dict[str, Any]:
    """What the bits depend on: versions, BLAS libraries and their kernels, and a small computation by them."""
    libraries = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
    blas = [f"{lib['internal_api']} {lib['version']} {lib.get('architecture')}" for lib in libraries]
    with threadpool_limits(1, user_api="blas"):
        reference = _reference()
    return {
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": platform.machine(),
        "blas": sorted(set(blas)),
        "reference": reference,
    }


def _reference() -> str:
    """Products, decompositions and elementary functions of numpy and scipy."""
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for n in (3, 7, 40):
        A = rng.normal(size=(n, n + 5))
        S = A @ A.T
        found += [S, A.T @ A, *np.linalg.eigh(S), *np.linalg.svd(A), np.linalg.cholesky(S), np.linalg.inv(S)]
        found += [linalg.cholesky(S), linalg.solve(S, A, assume_a="pos"), np.linalg.lstsq(A.T, A[0], rcond=None)[0]]
        found += [np.einsum("ij,kj->ik", A, A), A.sum(axis=0), A.sum(), np.exp(A), np.log(A**2), np.sin(A)]
        found += [special.gammaln(A**2), special.psi(A**2), np.logaddexp.reduce(A, axis=1)]
    return digest(found)


def disagreements(modes: Modes) -> Iterator[str]:
    """Parts that are not the same in all modes that have them."""
    for part in dict.fromkeys(part for parts in modes.values() for part in parts):
        values: dict[str, list[str]] = {}
        for mode, parts in modes.items():
            if part in parts:
                values.setdefault(parts[part], []).append(mode)
        if len(values) > 1:
            yield f"{part}: {' | '.join(', '.join(names) for names in values.values())}"


def united(modes: Modes) -> Parts:
    """The parts of a case, whichever mode has them."""
    return {part: value for parts in reversed(modes.values()) for part, value in parts.items()}


def entry(parts: Parts) -> dict[str, Any]:
    """A case as it is written down: one digest, and those of its parts."""
    whole = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return {"sha256": whole, "parts": dict(sorted(parts.items()))}


def changed(parts: Parts, expected: Mapping[str, Any] | None) -> list[str]:
    """Parts that differ from what was written down."""
    before = expected["parts"] if expected is not None else {}
    return sorted(part for part in parts.keys() | before.keys() if parts.get(part) != before.get(part))


def run_case(case: Case) -> Modes:
    """A case in a folder of its own, on one BLAS thread, without its warnings."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), threadpool_limits(1, user_api="blas"):
        warnings.simplefilter("ignore")
        return case(Path(folder))


def judge(cases: Mapping[str, Case], expected: Mapping[str, Any] | None) -> Iterator[tuple[str, list[str], Parts]]:
    """Each case: what is wrong with it, and its parts. Without ``expected`` modes are compared only."""
    for name, case in cases.items():
        try:
            modes = run_case(case)
        except Exception as error:
            yield name, [f"failed with {type(error).__name__}: {error}"], {}
            continue
        parts = united(modes)
        wrong = [f"modes: {line}" for line in disagreements(modes)]
        if expected is not None and entry(parts) != expected.get(name):
            wrong += changed(parts, expected.get(name))
        yield name, wrong, parts


def tell(line: str) -> None:
    """A line on the screen, at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(words: Iterable[str]) -> int:
    """Compare, or write down."""
    write = list(words) == ["--write"]
    here, began = signature(), time.perf_counter()
    tell(f"vedute of {Path(vedute.__file__).parent}")
    kept = json.loads(EXPECTED.read_text()) if EXPECTED.exists() and not write else None
    known = kept["cases"] if kept is not None and kept["signature"] == here else None
    if known is None and not write:
        tell("other numerical kernels than those of expected.json: modes are compared with each other only")
    found, sound = {}, True
    for name, wrong, parts in judge(CASES, known):
        tell(f"{name}: {'ok' if not wrong else 'differs: ' + '; '.join(wrong)}")
        found[name], sound = entry(parts), sound and not wrong
    if known is not None and (gone := sorted(known.keys() - found.keys())):
        tell(f"cases that are gone: {', '.join(gone)}")
        sound = False
    tell(f"{len(found)} cases in {time.perf_counter() - began:.0f} s: {'all the same' if sound else 'NOT THE SAME'}")
    if write and sound:
        EXPECTED.write_text(json.dumps({"signature": here, "cases": found}, indent=1) + "\n")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
