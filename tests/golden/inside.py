"""The few things that have no public door: interrupting a fit, seeded noise in files, and sites in one process.

All imports of the inside of vedute that the golden guard needs are here. Run as a program, it is a fit that is killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from vedute import CenterParams, GlobalPrior, Study
from vedute.data.rows import StudyRows
from vedute.federation.remote import RemoteRun, fit_remote
from vedute.federation.site import Site
from vedute.privacy.mechanisms import noise_source
from vedute.privacy.policies import Policy, base
from vedute.run.exchange import Ledgers
from vedute.run.model_choice import select_by_release
from vedute.run.protocol import Progress
from vedute.run.settings import Settings
from vedute.run.study_fit import Request, Watch, fit_study

RUN = "0123456789abcdef" * 2


class Died(Exception):
    """What an interruption looks like."""


@dataclass(frozen=True)
class Federation:
    """The server's run folder, those of the centers at home, and what the server knows, named as in the estimator."""

    server: Path
    homes: Mapping[str, Path]
    prior_: GlobalPrior
    centers_: Mapping[str, CenterParams]
    scaler_: dict[str, Any]
    history_: list[dict[str, Any]]
    n_rounds_: int
    converged_: bool


def fit_files(study: Path, out: Path, options: Mapping[str, Any], *, dies_after: int = 0, killed: bool = False) -> None:
    """Fit a study into a run folder; with ``dies_after`` it ends after that round, by an exception or by SIGKILL.

    ``options`` are those of the estimator, and so is their policy: it may be seeded, which no study file can say.
    """

    def after(progress: Progress) -> None:
        if len(progress.history) == dies_after:
            if killed:
                os.kill(os.getpid(), signal.SIGKILL)
            raise Died

    watch = Watch(lambda settings, done: None, after)
    try:
        fit_study(Study.load(study), out, Request(_settings(options)), watch)
    except Died:
        return
    assert not dies_after, "the fit ended before it could be interrupted"


def fit_sites(
    shared: Path,
    nodes: Mapping[str, Path],
    folder: Path,
    options: Mapping[str, Any],
    *,
    dies_after: int = 0,
    noise_seed: int | None = None,
) -> Federation:
    """A federation in this process.

    With ``dies_after`` the server and all sites lose their memory after that round and go on. Sites draw their noise
    from the operating system; ``noise_seed`` replaces that by the seeded kind, so that it can be compared.
    """

    def begin() -> None:
        sites.update({name: Site(Study.load_node(shared, node), folder / name) for name, node in nodes.items()})

    def ask(data: bytes, centers: Any) -> dict[str, bytes]:
        return {name: sites[name].respond(data) or b"" for name in centers}

    def die(progress: Progress) -> None:
        if len(progress.history) == dies_after:
            raise Died

    sites: dict[str, Site] = {}
    job = RemoteRun(Study.load_shared(shared), Settings(**_settings(options)), RUN, folder / "server", tuple(nodes))
    with patch.object(base, "noise_source", lambda seed, center: noise_source(noise_seed, center)):
        if dies_after:
            begin()
            try:
                fit_remote(job, ask, lambda text: None, die)
                raise AssertionError("the run ended before it could be interrupted")
            except Died:
                sites.clear()
        begin()
        run = fit_remote(job, ask, lambda text: None, lambda progress: None)
    model, history = run.model, [dict(vars(record)) for record in run.history]
    homes = {name: folder / name / "runs" / RUN / "model" for name in nodes}
    return Federation(
        job.folder, homes, model.prior, model.centers, dict(model.scalers), history, len(history), run.converged
    )


def choose_files(study: Path, components: tuple[int, ...], options: Mapping[str, Any]) -> Mapping[int, float]:
    """The misfit of each number of components to one seeded release of a study."""
    rows = StudyRows(Study.load(study), clipped=True)
    settings = Settings(**{"n_components": 1, **_settings(options)})
    return select_by_release(rows, settings, components, Ledgers())[0]


def _settings(options: Mapping[str, Any]) -> dict[str, Any]:
    policy: Policy | None = options.get("privacy")
    return {**options, **({"privacy": policy.table()} if policy is not None else {})}


if __name__ == "__main__":
    fit_files(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[4]), dies_after=int(sys.argv[3]), killed=True)
