"""The part of the page on reproduction about slips in the text of the paper."""

from __future__ import annotations

from vedute_reproduction.comparison import printed
from vedute_reproduction.page.parts import Results, bullets


def files() -> list[str]:
    """It needs no results."""
    return []


def section(results: Results) -> str:
    """All of them, those on privacy by name alone."""
    told = [
        """The standardised difference of WAIC has a minus under its root; variances of independent values add, so it
        must be a plus, and folds that are shared ask for a paired difference.""",
        "The rows with lambda = 0 of the FedProx table repeat the rows of scenario IID, not those of G.",
        "The formula of the computational cost multiplies the dimensions of the views where they add.",
        f"""The text says that what privacy costs grows with the number of centers. In the paper's own tables the error
        lost to it falls from 3 to 6 centers: the test error in {_falls("SD_2", "test_mae")} scenarios of SD and
        {_falls("ADNI_2", "test_mae")} of ADNI, the train error in {_falls("SD_2", "train_mae")} and
        {_falls("ADNI_2", "train_mae")}.""",
        """The text says that the method outperforms both auto-encoders in all scenarios; in K and G/K these were not
        run.""",
        """Those on privacy (a budget that counts one round of many, a first round that is raw, a constant) are told in
        `privacy.md`, under "Policy `paper`".""",
    ]
    return f"## Slips in the paper to know of\n\n{bullets(told)}"


def _falls(name: str, metric: str) -> str:
    """In how many scenarios of a table of the paper the error lost to privacy falls from 3 to 6 centers."""
    error = printed(name, metric)
    lost = (error["DP-Fed-mv-PPCA"] - error["Fed-mv-PPCA"]).dropna().unstack("centers")
    return f"{int((lost[6] < lost[3]).sum())} of {len(lost)}"
