"""The demonstration as a report: what a run folder would tell of its centers, from memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vedute.cli.demonstration import Center, Outcome
from vedute.report.page import render
from vedute.report.reading import Folder, Subjects, from_estimator, read_seen
from vedute.run.latent import Tally


def report(outcome: Outcome) -> str:
    """The page of one study."""
    return render(as_folder(outcome))


def as_folder(outcome: Outcome) -> Folder:
    """A study as if it had been fitted where all rows are."""
    return replace(
        from_estimator(outcome.estimator, outcome.title),
        counts={name: len(center.latent) for name, center in outcome.centers.items()},
        seen={name: read_seen(_tally(center).told()) for name, center in outcome.centers.items()},
        subjects={name: _subjects(center) for name, center in outcome.centers.items()},
    )


def file_name(outcome: Outcome) -> str:
    """``report-`` and how the title begins."""
    return f"report-{outcome.title.split(',')[0].replace(' ', '-')}.html"


def _tally(center: Center) -> Tally:
    tally = Tally()
    tally.add({name: np.asarray(rows, dtype=float) for name, rows in center.views.items()})
    return tally


def _subjects(center: Center) -> Subjects:
    return Subjects(tuple(map(str, range(len(center.latent)))), tuple(map(str, center.groups)), center.latent)
