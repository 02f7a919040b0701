"""What is explained of each view: by the components, and, where the view is missing, by the other views."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vedute.data.scaling import scaling_of
from vedute.model.parameters import Array, ViewParams, ViewPrior
from vedute.model.prediction import posterior
from vedute.report.centers import WITHHELD
from vedute.report.charts import MANY, SOFT, Axis, Dots, Heatmap, Series, array, colour
from vedute.report.content import Figure, Option, Section, Table, count, listed, num, percent, row_height
from vedute.report.reading import Folder
from vedute.run.fitted_model import Model

USUAL = "a usual center"
LABELLED = 10  # components whose shares can be written into the map
FEATURES = 8  # of a missing view that are shown: those that the components carry most
GAPS = 60  # missing views that get a figure and a table
OTHERS = 30  # centers beside which a missing view is shown on the page


def component_shares(params: ViewParams | ViewPrior) -> Array:
    """Share of a view's variance, tr(W W' + sigma2 I), that each component explains, and all of them at the end."""
    each = (params.W**2).sum(axis=0)
    total = each.sum() + len(params.mu) * params.sigma2
    return np.asarray(np.append(each, each.sum()) / total)


def by_center(model: Model, view: str) -> dict[str, Array]:
    """The shares of a view under the global parameters and in each center that holds it."""
    own = {name: component_shares(c.views[view]) for name, c in model.centers.items() if view in c.views}
    return {USUAL: component_shares(model.prior.views[view]), **own}


def explained_map(found: Mapping[str, Array]) -> Heatmap:
    """Views or centers by components, coloured by the share of variance that is explained."""
    values = 100 * np.array(list(found.values()))
    names = [*(str(k + 1) for k in range(values.shape[1] - 1)), "all"]
    words = [name if name == "all" else f"component {name}" for name in names]
    texts = [[f"{row}, {word}: {z:.1f} %" for word, z in zip(words, line, strict=True)]
             for row, line in zip(found, values, strict=True)]  # fmt: skip
    cells = [[f"{z:.0f}" for z in line] for line in values]
    roomy = len(found) <= MANY and len(names) <= LABELLED + 1
    return Heatmap(list(found), names, values, cells, texts, title="component", scale="%", roomy=roomy)


def explained(folder: Folder) -> Section:
    """The chapter on the variance explained."""
    model = folder.run.model
    usual = {view: component_shares(prior) for view, prior in model.prior.views.items()}
    best = max(usual, key=lambda view: usual[view][-1])
    sentences = [
        f"The components explain most of {best}: {percent(usual[best][-1])} of its variance in a usual center."
    ]
    sentences += [
        f"{view}: {percent(found[-1])} explained, "
        f"component {int(np.argmax(found[:-1])) + 1} the most ({percent(max(found[:-1]))})."
        for view, found in usual.items()
    ]
    missing = [] if model.centers else ["variance explained in single centers: " + WITHHELD]
    missing.append("variance explained of single subjects' rows: they are not in a run folder; these are shares that "
                   "the fitted parameters imply")  # fmt: skip
    head = ("view", "center", *(f"{k + 1}" for k in range(model.prior.q)), "all")
    rows = tuple(
        (view, name, *(percent(s) for s in found))
        for view in model.layout.names
        for name, found in by_center(model, view).items()
    )
    table = Table("Share of variance explained by each component", head, rows, labels=2)
    states = {"all, in a usual center": usual} | {view: by_center(model, view) for view in model.layout.names}
    options = tuple(
        Option(label, explained_map(found), max(220, row_height(len(found)))) for label, found in states.items()
    )
    alt = (
        "Heat map of the share of variance that each component explains: of all views in a usual center, or of one "
        "view in each center."
    )
    figure = Figure("explained", alt, options, "View")
    return Section("explained", "Variance explained", tuple(sentences), (figure,), (table,), tuple(missing))


@dataclass(frozen=True)
class Predicted:
    """A feature that a center lacks: predicted over its patients, and where other centers observed it."""

    feature: str
    mean: float
    sd: float
    elsewhere: dict[str, tuple[float, float]]  # center -> mean and sd of its patients


def certainty(model: Model, center: str | None, view: str) -> float:
    """Share of the view's variance that is known once all other views of a subject are observed.

    ``center`` None is a subject of a center that nobody has seen.
    """
    emission = model.emission(center)
    row = emission.mu.copy()
    held = set(model.layout.names) if center is None else set(model.centers[center].views)
    for name, columns in model.layout.slices.items():
        if name == view or name not in held:
            row[columns] = np.nan
    if np.isnan(row).all():
        return math.nan
    cov = posterior(emission, row[None]).covs[0]
    columns = model.layout.slices[view]
    W, noise = emission.W[columns], emission.noise[columns]
    before = emission.latent * (W**2).sum() + noise.sum()
    return float(1.0 - (((W @ cov) * W).sum() + noise.sum()) / before)


def gaps(model: Model) -> list[tuple[str, str]]:
    """Centers and the views that they lack."""
    return [(c, v) for c, p in model.centers.items() for v in model.layout.names if v not in p.views]


def predict_gap(model: Model, center: str, view: str) -> list[Predicted]:
    """The distribution of a missing view over the patients of a center, in scaled units."""
    emission, columns = model.emission(center), model.layout.slices[view]
    mean, sd = _moments(emission.mu[columns], emission.W[columns], emission.noise[columns], emission.m)
    others = {
        name: _moments(p.views[view].mu, p.views[view].W, np.full(len(mean), p.views[view].sigma2), p.m)
        for name, p in model.centers.items()
        if view in p.views
    }
    order = np.argsort(-(model.prior.views[view].W ** 2).sum(axis=1), kind="stable")[:FEATURES]
    return [
        Predicted(
            model.columns[view][j], float(mean[j]), float(sd[j]),
            {name: (float(m[j]), float(s[j])) for name, (m, s) in others.items()},
        )
        for j in order
    ]  # fmt: skip


def _moments(mu: Array, W: Array, noise: Array, m: Array) -> tuple[Array, Array]:
    return mu + W @ m, np.sqrt((W**2).sum(axis=1) + noise)


def gap_dots(model: Model, center: str, view: str, most: int | None = None) -> Dots:
    """What is predicted for a missing view, beside what other centers (``most`` of them) observed: mean ± sd."""
    rows = predict_gap(model, center, view)
    observed = [(i, name, *both) for i, row in enumerate(rows) for name, both in list(row.elsewhere.items())[:most]]
    series = (
        Series(
            "observed elsewhere", array([mean for _, _, mean, _ in observed]), array([o[0] + 0.18 for o in observed]),
            array([sd for _, _, _, sd in observed]), [f"{o[1]}: {rows[o[0]].feature}" for o in observed], SOFT,
        ),
        Series(
            "predicted", array([row.mean for row in rows]), array([i - 0.18 for i in range(len(rows))]),
            array([row.sd for row in rows]), [f"{center}: {row.feature}" for row in rows], colour(1),
        ),
    )  # fmt: skip
    return Dots([row.feature for row in rows], series, Axis("mean ± sd over patients, scaled"), "{text}: {x:.2f}")


def imputation(folder: Folder) -> Section:
    """The chapter on imputation: how surely a missing view follows from the others, and what is predicted for it."""
    model = folder.run.model
    if len(model.layout.names) == 1:
        return Section("imputation", "Imputation", missing=("one view only: there are no others to predict it from",))
    found = gaps(model)
    whole = {view: certainty(model, None, view) for view in model.layout.names}
    best = max(whole, key=lambda view: whole[view])
    sentences = [f"A missing view is best predicted in {best}: the others tell {percent(whole[best])} of its variance."]
    if found:
        sentences.append(f"{count(len(found), 'view is', 'views are')} missing at whole centers: "
                         f"{listed([f'{view} at {center}' for center, view in found])}.")  # fmt: skip
    elif model.centers:
        sentences.append("Every center has every view, so nothing was predicted for a whole center.")
    missing = ["predictions for single subjects: 'vedute impute RUN STUDY' makes them where the rows are"]
    if not model.centers:
        missing.append(f"which center lacks which view: {WITHHELD}")
    tables = [_certainties(model, whole)]
    tables += [_gap(model, *gap, folded=i > 0) for i, gap in enumerate(found[:GAPS])]
    figures = (_gap_figure(model, found[:GAPS]),) if found else ()
    return Section("imputation", "Imputation", tuple(sentences), figures, tuple(tables), tuple(missing))


def _certainties(model: Model, whole: Mapping[str, float]) -> Table:
    rows = [("a new center", *(percent(s) for s in whole.values()))]
    rows += [(name, *(percent(certainty(model, name, view)) for view in whole)) for name in model.centers]
    caption = "If a view were missing: share of its variance that the other views of the center tell"
    return Table(caption, ("center", *whole), tuple(rows))


def _gap(model: Model, center: str, view: str, *, folded: bool) -> Table:
    """In the units of the data, where all centers share one scaling."""
    shared = next(iter(model.scalers.values())) if scaling_of(model.settings.scaling).common else None
    rows = []
    for found in predict_gap(model, center, view):
        j = model.columns[view].index(found.feature)
        shift, scale = (0.0, 1.0) if shared is None else (shared.shift[view][j], shared.scale[view][j])
        observed = [m for m, _ in found.elsewhere.values()] or [math.nan]
        rows.append((
            found.feature, num(found.mean * scale + shift), num(found.sd * scale),
            " to ".join(dict.fromkeys(num(end(observed) * scale + shift) for end in (min, max))),
        ))  # fmt: skip
    units = "units of the data" if shared is not None else "scaled units"
    head = ("feature", "predicted mean", "predicted sd", "means observed elsewhere")
    return Table(f"{view}, which {center} lacks ({units})", head, tuple(rows), folded=folded)


def _gap_figure(model: Model, found: Sequence[tuple[str, str]]) -> Figure:
    options = []
    for center, view in found:
        dots = gap_dots(model, center, view, OTHERS)
        options.append(Option(f"{view} at {center}", dots, row_height(2 * len(dots.rows))))
    alt = "Predicted mean and standard deviation of the features of a missing view, beside what other centers observed."
    return Figure("imputation", alt, tuple(options), "Missing view")
