"""The page: all chapters in one self-contained HTML file."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from vedute.errors import UserError
from vedute.report.centers import fitted, variability
from vedute.report.components import latent, loadings
from vedute.report.content import Figure, Section, num
from vedute.report.convergence import convergence, model_choice
from vedute.report.explained import explained, imputation
from vedute.report.plotly_renderer import plotted
from vedute.report.reading import Folder
from vedute.report.spending import paid_in_all, privacy
from vedute.version import __version__

SHOWN = 12  # rows of a table before the rest is folded away


def sections(folder: Folder, ids: bool = False) -> tuple[Section, ...]:
    """The chapters in the order of the page."""
    return (
        fitted(folder),
        privacy(folder),
        convergence(folder),
        variability(folder),
        latent(folder, ids),
        loadings(folder),
        explained(folder),
        imputation(folder),
        model_choice(folder),
    )


def facts(folder: Folder) -> dict[str, str]:
    """The run in a handful of numbers."""
    model, paid = folder.run.model, paid_in_all(folder)
    people = {"subjects": f"{sum(folder.counts.values()):,}"} if len(folder.counts) == len(folder.centers) else {}
    return {
        "centers": f"{len(folder.centers):,}",
        **people,
        "views": f"{len(model.layout.names):,}",
        "features": f"{model.layout.total:,}",
        "components": f"{model.prior.q:,}",
        "privacy": "none" if paid.banner else f"ε = {num(paid.epsilon)}",
    }


def render(folder: Folder, *, ids: bool = False, live: str = "") -> str:
    """The page of a finished run; ``ids`` shows the names of subjects when the mouse points at them."""
    versions = {**folder.versions, "report": __version__}
    chapters = sections(folder, ids)
    return page(folder.name, chapters, folder.run.model.prior.q, versions, live, facts(folder))


def page(
    title: str,
    chapters: Sequence[Section],
    components: int,
    versions: Mapping[str, str],
    live: str = "",
    told: Mapping[str, str] | None = None,
) -> str:
    """Some chapters as a page; one that is ``live`` (a word for its state) asks its server for news."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise UserError(
            f"the report needs {error.name}, which is not installed: pip install 'vedute[report]'"
        ) from error
    environment = Environment(
        loader=PackageLoader("vedute.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("page.html").render(
        title=title,
        facts=told or {},
        chapters=chapters,
        figures=[_plain(figure) for chapter in chapters for figure in chapter.figures],
        plotly=_packed(get_plotlyjs),
        components=components,
        versions=versions,
        live=live,
        shown=SHOWN,
    )


@cache
def _packed(program: Callable[[], str]) -> str:
    """4.9 MB of program shrink to 2: every browser since 2023 can unpack them."""
    return base64.b64encode(gzip.compress(program().encode(), mtime=0)).decode()


def _plain(figure: Figure) -> Mapping[str, Any]:
    return {"key": figure.key, "menu": figure.menu, "options": [plotted(option) for option in figure.options]}
