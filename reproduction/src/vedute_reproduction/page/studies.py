"""The part of the page on reproduction about the data: what they are, and how their rows are dealt."""

from __future__ import annotations

import pandas as pd

from vedute_reproduction.heart4 import HEART4
from vedute_reproduction.page.parts import Results
from vedute_reproduction.studies import CNP, SYNTHETIC
from vedute_reproduction.writing import rows

NAMES = {
    "sd": ("SD, synthetic", SYNTHETIC.n_components),
    "adni-cnp": ("cnp, in place of ADNI", CNP.n_components),
    "heart4": ("heart4", HEART4.n_components),
}


def files() -> list[str]:
    """The results that the section needs, without their endings."""
    return [f"{name}-data" for name in NAMES]


def section(results: Results) -> str:
    """Who and what is in each study, and the scenarios."""
    body = [[about, *_cells(results[f"{name}-data"]), str(q)] for name, (about, q) in NAMES.items()]
    return f"""## Data, scenarios, presets

{rows(["data", "subjects", "left out", "features by view", "groups", "true centers", "components"], body)}

SD is a draw of the model itself, with one group of subjects shifted in the latent space. cnp is the UCLA Consortium for
Neuropsychiatric Phenomics: tests of cognition (COGN), questionnaires (QUEST), and measures of the quality of structural
(T1W) and functional (REST) images, which are not the regional volumes and uptakes of ADNI; subjects who lack a cell are
left out, and so are its views that are not of ADNI's kinds (TASK, PAM). heart4 is the heart
disease data of UCI with all its empty cells: history and examination (CLINIC) and exercise test (EXERCISE), the views
that the paper's scenarios can be dealt with. Both are open; `examples/README.md` in the repository names their sources
and tells how their files are laid out.

All methods have as many components as the last column says, but where a table says another number. The paper does not
say how it scales; its errors are found again if each center is scaled by itself. Beside other variances, the default
preset knows of patients that differ by center (case mix), starts all centers alike and turns them towards each other,
and runs until it has converged; `model.md` has the formulas."""


def _cells(table: pd.DataFrame) -> list[str]:
    counts = {str(what): part.set_index("name")["count"] for what, part in table.groupby("what", sort=False)}
    told = [", ".join(f"{name} {n}" for name, n in counts[what].items()) for what in ("view", "group")]
    centers = ", ".join(f"{name} {n}" for name, n in counts["center"].items()) if "center" in counts else ""
    return [str(counts["subjects"]["used"]), str(counts["subjects"]["left out"]), *told, centers]
