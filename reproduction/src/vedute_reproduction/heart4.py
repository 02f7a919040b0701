"""Heart disease: random centers, and four true hospitals whose patients and missing cells differ widely."""

from __future__ import annotations

from pathlib import Path

from vedute_reproduction.adni import study
from vedute_reproduction.runner import Experiment
from vedute_reproduction.studies import OpenData, check_columns, check_groups, read_folder

OBSERVED = (
    "All {all} subjects are used with the cells they have; errors are over observed cells. Rivals that need complete "
    "rows learn from those; no center alone is fitted, because some have none."
)
HEART4 = OpenData("heart4", ("CLINIC", "EXERCISE"), "group", "site", 6, complete=False)


def experiment(folder: Path, *, rivals: bool = True) -> Experiment:
    """Random centers and the four true hospitals, whose patients and missing cells differ widely."""
    data = read_folder(folder, HEART4)
    check_groups(data, folder)
    check_columns(data, folder)
    remarks = (OBSERVED.format(all=len(data)),)
    return study(HEART4.name, HEART4.name, data, HEART4.n_components, rivals=rivals, remarks=remarks)
