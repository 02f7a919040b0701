"""A fold of each experiment, run again, gives the lines of its file: results that no code gives any more turn it red.

Rounds carry the last bits of another machine's arithmetic along, hence the tolerances.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from vedute_reproduction.adni import experiment as adni
from vedute_reproduction.collapse import ModelDraw
from vedute_reproduction.collapse import compute as draw_of_the_model
from vedute_reproduction.contenders import DEFAULT, PAPER, UNTUNED, YARDSTICK
from vedute_reproduction.corrections import experiment as corrections
from vedute_reproduction.heart4 import experiment as heart4
from vedute_reproduction.keeping import Source
from vedute_reproduction.missing import Hiding
from vedute_reproduction.privacy import Walk
from vedute_reproduction.runner import Experiment, Setting, Task, compute
from vedute_reproduction.sd import experiment as sd
from vedute_reproduction.selection import Trial
from vedute_reproduction.studies import SyntheticStudy, from_folder

RESULTS = Path(__file__).parents[2] / "docs" / "reproduction"
OPEN = Path(__file__).parents[3] / "shared" / "data"
ABOUT = ["scenario", "centers", "method", "scaling", "repeat", "fold"]


def _kept(name: str, repeat: int, fold: int) -> pd.DataFrame:
    lines = pd.read_csv(RESULTS / f"{name}.csv")
    return lines[(lines["repeat"] == repeat) & (lines["fold"] == fold)]


def _again(
    name: str, setting: Setting, repeat: int, fold: int, source: Source | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Lines computed now, and those of the file for the same arms."""
    data = (source or SyntheticStudy()).draw(repeat)
    found = pd.DataFrame(compute([(data, Task(name, setting, repeat, fold))])[0])
    found = found.set_index(ABOUT)
    return found, _kept(name, repeat, fold).set_index(ABOUT).loc[found.index]


def _setting(dealing: str, centers: int, part: str, experiment: Experiment | None = None) -> Setting:
    settings = (experiment or sd()).settings
    found = [s for s in settings if (s.dealing, s.centers, s.part) == (dealing, centers, part)]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("dealing", "centers", "part", "repeat", "fold"),
    [
        ("IID", 1, "ours", 0, 0),
        ("G/K", 3, "ours", 1, 2),  # with the paper's policy
        ("K", 6, "linear", 2, 1),
        ("G", 6, "linear", 3, 0),
        ("G", 3, "scaled likewise", 4, 1),
        ("G/K", 6, "parted", 5, 2),
    ],
)
def test_synthetic_table(dealing: str, centers: int, part: str, repeat: int, fold: int) -> None:
    found, kept = _again("sd", _setting(dealing, centers, part), repeat, fold)
    accuracy = 0.01 if dealing == "G/K" else 1e-6
    pd.testing.assert_frame_equal(found[["train_mae", "test_mae"]], kept[["train_mae", "test_mae"]], rtol=0.01)
    assert (found["accuracy"] - kept["accuracy"]).abs().max() <= accuracy


def test_synthetic_table_auto_encoders() -> None:
    """Those with one step in an epoch, which are quick."""
    setting = _setting("G", 3, "neural")
    quick = replace(setting, arms=tuple(arm for arm in setting.arms if arm.name.endswith(UNTUNED)))
    found, kept = _again("sd", quick, 6, 1)
    assert len(found) == 2
    pd.testing.assert_frame_equal(found, kept, rtol=0.02, atol=0.02)


@pytest.mark.skipif(not OPEN.is_dir(), reason="the open data sets are not there")
@pytest.mark.parametrize(("name", "part"), [("adni-cnp", "linear"), ("adni-cnp", "dissected"), ("heart4", "ours")])
def test_true_centers_of_the_open_data(name: str, part: str) -> None:
    experiment = heart4(OPEN / "heart4") if name == "heart4" else adni(from_folder(OPEN / "cnp"))
    found, kept = _again(name, _setting("sites", 0, part, experiment), 6, 1, experiment.source)
    pd.testing.assert_frame_equal(found[["train_mae", "test_mae"]], kept[["train_mae", "test_mae"]], rtol=0.01)
    assert (found["accuracy"] - kept["accuracy"]).abs().max() <= 0.03


def test_collapse() -> None:
    found = pd.DataFrame(draw_of_the_model(ModelDraw(5, 1.0, 4)))
    place = ["centers", "case_mix", "repeat", "method", "view", "parameter", "round"]
    kept = pd.read_csv(RESULTS / "collapse.csv").set_index(place)["ratio"].loc[found.set_index(place).index]
    early = found["round"].to_numpy() <= 20  # later on last bits decide whether a spread is lost
    pd.testing.assert_series_equal(
        found.set_index(place)["ratio"][early], kept[early], rtol=0.05, atol=1e-3, check_index=False
    )


def test_corrections() -> None:
    setting = next(s for s in corrections().settings if (s.dealing, s.centers) == ("G", 3))
    arms = tuple(arm for arm in setting.arms if arm.name in (PAPER, f"{PAPER}, case mix", DEFAULT, YARDSTICK))
    found, kept = _again("corrections", replace(setting, arms=arms), 7, 0)
    assert len(found) == 7  # ours in both scalings
    pd.testing.assert_frame_equal(found, kept, rtol=0.01, atol=0.01)


@pytest.mark.parametrize(("dealing", "repeat", "fold"), [("IID", 2, 0), ("G/K", 1, 1)])
def test_privacy_by_rounds(dealing: str, repeat: int, fold: int) -> None:
    """The file has means and sds over folds, and no value of a fold can lie further out than sqrt(folds - 1) sds."""
    found = pd.DataFrame(Walk("privacy", 5, dealing, 100, repeat, fold).compute(SyntheticStudy().draw(repeat)))
    kept = pd.read_csv(RESULTS / "privacy-rounds.csv").fillna({"view": ""})
    place = ["scenario", "run", "quantity", "view", "round"]
    assert not found.duplicated(place).any()
    both = found.merge(kept, on=place, how="left", validate="one_to_one")
    gaps = (both["value"] - both["mean"]).abs()
    assert (gaps <= 1.01 * np.sqrt(both["folds"] - 1) * both["sd"] + 1e-5 * both["mean"].abs()).all()
    far = (gaps / both["sd"])[both["sd"] > 0].groupby(both["quantity"]).mean()
    assert len(far) == (6 if dealing == "IID" else 4)
    assert far.max() < 1.5  # over all folds it is below 1


def test_selection() -> None:
    found = pd.DataFrame(Trial("selection", (2, 5), "shared-view", 3, 2).compute(SyntheticStudy().draw(3)))
    place = ["preset", "components"]
    columns = ["waic", "p_waic", "train_mae", "test_mae"]
    kept = _kept("selection", 3, 2).set_index(place).loc[found.set_index(place).index]
    pd.testing.assert_frame_equal(found.set_index(place)[columns], kept[columns], rtol=0.02)


def test_hidden_views() -> None:
    found = pd.DataFrame(Hiding("missing", 5, "view2", 3, 1).compute(SyntheticStudy().draw(3)))
    kept = _kept("missing", 3, 1)
    kept = kept[kept["view"] == "view2"].reset_index(drop=True)
    pd.testing.assert_frame_equal(found[list(kept.columns)], kept, rtol=0.02, atol=0.02, check_dtype=False)
