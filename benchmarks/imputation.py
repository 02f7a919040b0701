"""Hidden cells of a real study, filled in by the model and by what a hospital could do alone.

    python benchmarks/imputation.py FOLDER [--seeds 3] [--components 1-8]

FOLDER holds ``subjects.csv`` (id, site) and one CSV per view, such as the heart4 data of ``examples/README.md``. One
observed cell in five is hidden. The number of components is chosen by WAIC from the cells that are left; nothing looks
at the hidden ones before the comparison. Errors are root mean squares in standard deviations of each column.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  scikit-learn asks for it
from sklearn.impute import IterativeImputer

from vedute.cli.select import parse_components
from vedute.run.fitted_model import Model
from vedute.run.model_choice import select_components

Center = dict[str, pd.DataFrame]
Study = dict[str, Center]
HIDDEN = 0.2


def read_folder(folder: Path) -> Study:
    """The views of each site; a view of which a site has nothing is absent."""
    sites = pd.read_csv(folder / "subjects.csv", index_col=0)["site"]
    found: Study = {str(site): {} for site in sorted(sites.unique())}
    for path in sorted(folder.glob("*.csv")):
        if path.name != "subjects.csv":
            table = pd.read_csv(path, index_col=0)
            for site, ids in sites.groupby(sites).groups.items():
                part = table.reindex(ids)
                if part.notna().any(axis=None):
                    found[str(site)][path.stem] = part
    return found


def hide(study: Study, seed: int) -> Study:
    """The same study without a fifth of its observed cells."""
    rng = np.random.default_rng(seed)
    return {
        site: {view: table.mask(rng.random(table.shape) < HIDDEN) for view, table in views.items()}
        for site, views in study.items()
    }


def spreads(study: Study) -> dict[str, pd.Series]:
    """Standard deviation of each column over all sites."""
    views = sorted({view for site in study.values() for view in site})
    pooled = {view: pd.concat([site[view] for site in study.values() if view in site]) for view in views}
    return {view: table.std().replace(0.0, 1.0) for view, table in pooled.items()}


def error(study: Study, given: Study, filled: Study) -> float:
    """Root mean square error over the hidden cells, in standard deviations."""
    sd = spreads(study)
    squares = []
    for site, views in study.items():
        for view, truth in views.items():
            hidden = (truth.notna() & given[site][view].isna()).to_numpy()
            squares.append((((filled[site][view] - truth) / sd[view]).to_numpy()[hidden]) ** 2)
    return float(np.sqrt(np.mean(np.concatenate(squares))))


def by_column_mean(given: Study) -> Study:
    """Each site's own mean of a column; the mean of all sites where it has none."""
    everywhere = {
        view: pd.concat([site[view] for site in given.values() if view in site]).mean() for view in spreads(given)
    }
    return {
        site: {view: table.fillna(table.mean()).fillna(everywhere[view]) for view, table in views.items()}
        for site, views in given.items()
    }


def by_iterative_imputer(given: Study) -> Study:
    """Scikit-learn's IterativeImputer in each site alone, as it comes, on standardised columns."""
    sd, everywhere = spreads(given), by_column_mean(given)
    found: Study = {}
    for site, views in given.items():
        names = list(views)
        scale = pd.concat([sd[view] for view in names]).to_numpy()
        table = pd.concat([views[view] for view in names], axis=1).to_numpy() / scale
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            full = IterativeImputer(random_state=0, keep_empty_features=True).fit_transform(table) * scale
        ends = np.cumsum([views[view].shape[1] for view in names])
        found[site] = {}
        for view, block in zip(names, np.split(full, ends[:-1], axis=1), strict=True):
            empty = views[view].isna().all().to_numpy()  # a column that the site lacks altogether
            found[site][view] = views[view].fillna(pd.DataFrame(block, views[view].index, views[view].columns))
            found[site][view].loc[:, empty] = everywhere[site][view].loc[:, empty]
    return found


def by_model(given: Study, components: tuple[int, ...], jobs: int | None = None) -> tuple[Study, int]:
    """The federated model, its number of components chosen by WAIC; each site uses its own parameters.

    Columns of a view have units of their own here, so each is scaled by itself.
    """
    selection = select_components(given, components, scalings=["shared-standard"], jobs=jobs)
    model: Model = selection.model
    found: Study = {}
    for site, views in given.items():
        values, _ = model.impute({view: table.to_numpy(dtype=float) for view, table in views.items()}, site)
        found[site] = {view: pd.DataFrame(values[view], t.index, t.columns) for view, t in views.items()}
    return found, model.prior.q


def main() -> None:
    """Print one line per seed and their means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--components", default="1-8")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    study = read_folder(asked.folder)
    print("seed  column mean  IterativeImputer  vedute  components")
    lines = []
    for seed in range(asked.seeds):
        given = hide(study, seed)
        ours, q = by_model(given, parse_components(asked.components))
        fills = (by_column_mean(given), by_iterative_imputer(given), ours)
        lines.append([error(study, given, filled) for filled in fills])
        print(f"{seed:4d}  {lines[-1][0]:11.3f}  {lines[-1][1]:16.3f}  {lines[-1][2]:6.3f}  {q:10d}", flush=True)
    mean = np.mean(lines, axis=0)
    print(f"mean  {mean[0]:11.3f}  {mean[1]:16.3f}  {mean[2]:6.3f}")


if __name__ == "__main__":
    main()
