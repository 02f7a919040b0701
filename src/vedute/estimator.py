"""FederatedPPCA: the model with the manners of scikit-learn."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from vedute.data.rows import open_rows
from vedute.data.scaling import scaling_of
from vedute.data.study import Study
from vedute.data.views import MultiView, as_views, tabulate
from vedute.errors import UserError
from vedute.model.parameters import Array, CenterParams, GlobalPrior
from vedute.model.seeds import generator
from vedute.privacy.policies import CenterPrivacy, PaperPrivacy, Policy, SubjectPrivacy
from vedute.progress import rounds_bar
from vedute.run.exchange import RUN, Ledgers, make_job, read_inspected, told_at_home
from vedute.run.fitted_model import Model, center_deviation
from vedute.run.protocol import Progress, Record
from vedute.run.run_folder import Run, load_run, save_run
from vedute.run.scoring import DRAWS, Waic, model_waic
from vedute.run.server import fit_participants
from vedute.run.settings import Settings

Center = str | CenterParams | None
Privacy = SubjectPrivacy | CenterPrivacy | PaperPrivacy | None


class FederatedPPCA(BaseEstimator):
    """Federated multi-view probabilistic PCA (Balelli, Silva & Lorenzi 2022), fitted in one process.

    Each center has its own mean, loadings and noise per view; above the centers stands a global distribution of those
    parameters. ``preset="default"`` corrects the paper where it breaks, ``preset="paper"`` follows it to the letter.

    Parameters
    ----------
    n_components : int
        Dimension q of the latent space, smaller than the number of features.
    rounds : int
        Most rounds between centers and master.
    iterations : int or mapping
        Local iterations in a round: one number, or one for each center by its name.
    first_iterations : int
        Local iterations in the first round.
    preset : {"default", "paper"}
        Which variant of the algorithm.
    scaling : {"shared-standard", "shared-view", "shared-minmax", "center-minmax", "declared"} or None
        How features are made comparable. "shared-view" has one scale for each view; "shared-minmax" shares the
        extremes, which are values of real subjects; "declared" uses the public ``ranges`` given to :meth:`fit`;
        "center-minmax" is the paper's.
    privacy : None, SubjectPrivacy, CenterPrivacy or PaperPrivacy
        What may leave a center. None: exact values. "declared" ranges are needed for SubjectPrivacy.
    tol : float or None
        Largest relative change of the global prior at which the rounds stop; None runs all of them.
    random_state : int, Generator, RandomState or None
        Seeds the starting values; the same seed gives the same bits, whatever the number of threads.
    progress : bool
        Show a progress bar.
    posterior_variances, case_mix, spread : bool or None
        Switch one of the three corrections on or off; None leaves it as the preset has it.
    ledgers : path or None
        Folder of the ledgers, which belong to the data and outlive the fit: a second fit on the same data continues
        them. None keeps them in memory only, so nothing is remembered of what earlier fits released.

    Attributes
    ----------
    prior_ : GlobalPrior
        The global distribution, in scaled units.
    centers_ : dict of CenterParams
        Each center's own parameters, in scaled units.
    scaler_ : Scaler or dict of Scaler
        From original to scaled units; one per center with "center-minmax".
    history_ : list of dict
        One record per round.
    n_rounds_ : int
        Rounds that were run.
    converged_ : bool
        Whether they ended because the prior had settled.
    ledgers_ : dict of Ledger
        What left each center under the policy, and what it cost.
    """

    def __init__(
        self,
        n_components: int = 5,
        *,
        rounds: int = 100,
        iterations: int | Mapping[str, int] = 15,
        first_iterations: int = 30,
        preset: str = "default",
        scaling: str | None = "shared-standard",
        privacy: Privacy = None,
        tol: float | None = 1e-5,
        random_state: Any = None,
        progress: bool = False,
        posterior_variances: bool | None = None,
        case_mix: bool | None = None,
        spread: bool | None = None,
        ledgers: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_components = n_components
        self.rounds = rounds
        self.iterations = iterations
        self.first_iterations = first_iterations
        self.preset = preset
        self.scaling = scaling
        self.privacy = privacy
        self.tol = tol
        self.random_state = random_state
        self.progress = progress
        self.posterior_variances = posterior_variances
        self.case_mix = case_mix
        self.spread = spread
        self.ledgers = ledgers

    def _settings(self) -> Settings:
        if not (self.privacy is None or isinstance(self.privacy, Policy)):
            raise UserError(
                f"privacy={self.privacy!r} is no policy; write privacy=SubjectPrivacy(epsilon=..., delta=...), or "
                "CenterPrivacy or PaperPrivacy, from vedute"
            )
        return Settings(
            self.n_components, self.rounds, self.iterations, self.first_iterations, self.preset, self.scaling, self.tol,
            _seed(self.random_state), self.posterior_variances, self.case_mix, self.spread,
            None if self.privacy is None else self.privacy.table(),
        )  # fmt: skip

    def fit(
        self, centers: Mapping[str, Any] | Study, y: Any = None, *, ranges: Any = None, prior: GlobalPrior | None = None
    ) -> Self:
        """Fit the model to the data of several centers.

        ``centers`` maps a center's name to its views (view name -> array or DataFrame, or a :class:`MultiView`), or
        is a :class:`Study`, whose files are then read once, in chunks. Rows of a center's views are the same subjects;
        NaN is a missing cell, an absent view is one that the center lacks.
        ``ranges`` are public bounds of the features. ``prior`` gives the centers a prior for some views in round 1
        (the paper's second initialisation), in scaled units.
        """
        settings = self._settings()
        with rounds_bar(settings.rounds, shown=self.progress) as on_round:
            rows = open_rows(centers, ranges=ranges, clipped=settings.policy.once)
            job = make_job(rows, settings, prior)
            participants = read_inspected(rows, job, self._ledgers(settings))
            fitted = fit_participants(job, participants, threads=os.cpu_count() or 1, on_round=on_round)
        self.ledgers_ = {one.name: one.ledger for one in participants if one.ledger is not None}
        if settings.policy.exact:
            for ledger in self.ledgers_.values():
                settings.policy.release(ledger, RUN, {})
        self.told_ = told_at_home(participants)
        return self._take(fitted.model, fitted.progress)

    def _ledgers(self, settings: Settings) -> Ledgers | None:
        """Exact values are noted only where somebody asked for ledgers."""
        if self.ledgers is None and settings.policy.exact:
            return None
        return Ledgers(None if self.ledgers is None else Path(self.ledgers))

    def _take(self, model: Model, outcome: Progress) -> Self:
        self.model_ = model
        self.prior_ = model.prior
        self.centers_ = dict(model.centers)
        common = scaling_of(model.settings.scaling).common
        self.scaler_ = next(iter(model.scalers.values())) if common else dict(model.scalers)
        self.history_ = [dict(vars(record)) for record in outcome.history]
        self.n_rounds_ = len(outcome.history)
        self.converged_ = outcome.converged
        self.n_features_in_ = model.schema.layout.total
        return self

    def _views(self, views: Any) -> MultiView:
        check_is_fitted(self, "model_")
        return as_views(views, self.model_.columns)

    def transform(self, views: Any, *, center: Center = None, return_cov: bool = False) -> Any:
        """Latent position of each subject (posterior mean), and its covariance if asked."""
        table = self._views(views)
        latent = self.model_.project(table.views, center)
        x = tabulate(views, table, latent.mean, [f"component{k + 1}" for k in range(self.prior_.q)])
        return (x, latent.cov()) if return_cov else x

    def reconstruct(self, views: Any, *, center: Center = None) -> dict[str, Any]:
        """The given views as the model sees them: their expected values given all that was observed."""
        table = self._views(views)
        return self._tables(views, table, self.model_.reconstruct(table.views, center))

    def impute(self, views: Any, *, center: Center = None, return_std: bool = False) -> Any:
        """All views of the model with missing cells filled in; observed cells are returned as they are.

        With ``return_std`` also the predictive standard deviation of each cell (0 where it was observed).
        """
        table = self._views(views)
        values, sd = self.model_.impute(table.views, center)
        filled = self._tables(views, table, values)
        return (filled, self._tables(views, table, sd)) if return_std else filled

    def harmonise(self, views: Any, center: str | CenterParams) -> dict[str, Any]:
        """The subjects of a center as the typical center would have measured them; who they are is kept."""
        table = self._views(views)
        return self._tables(views, table, self.model_.harmonise(table.views, center))

    def score_samples(self, views: Any, *, center: Center = None) -> Array:
        """Log density of the observed cells of each subject, in the units of the data."""
        table = self._views(views)
        return self.model_.log_density(table.views, center)

    def score(self, views: Any, y: Any = None, *, center: Center = None) -> float:
        """Mean log density per subject."""
        return float(self.score_samples(views, center=center).mean())

    def sample(self, n: Any = 1, *, random_state: Any = None, center: Center = None) -> dict[str, Any]:
        """New subjects: of one center, or (center=None) each of a new center of its own."""
        check_is_fitted(self, "model_")
        if not isinstance(n, Integral) or n < 1:
            raise UserError(f"n={n!r} must be a whole number of at least 1")
        values = self.model_.sample(int(n), generator(random_state), center)
        return {name: pd.DataFrame(rows, columns=list(self.model_.columns[name])) for name, rows in values.items()}

    def variance_explained(self, views: Any, *, center: Center = None) -> pd.DataFrame:
        """Share of each view's variance that each component explains, and all of them together."""
        table = self._views(views)
        found = self.model_.variance_explained(table.views, center)
        names = [f"component{k + 1}" for k in range(self.prior_.q)] + ["all"]
        return pd.DataFrame(found, index=names).T

    def center_deviation(self) -> pd.DataFrame:
        """How far each center lies from the global distribution, view by view, in its standard deviations."""
        check_is_fitted(self, "model_")
        return pd.DataFrame([asdict(row) for row in center_deviation(self.model_)]).set_index(["center", "view"])

    def adapt(self, views: Any) -> CenterParams:
        """Parameters of a new center under the fitted prior, without communication; usable as ``center=``."""
        table = self._views(views)
        return self.model_.adapt(table.views)

    def waic(self, centers: Mapping[str, Any] | Study, *, draws: int = DRAWS) -> Waic:
        """WAIC of the model, in the units of the data: the rows of the centers are read once more, at home.

        ``float()`` of the result is WAIC, smaller is better; it also holds the standard error and the effective number
        of parameters. To choose a number of components, see :func:`vedute.select_components`.
        """
        check_is_fitted(self, "model_")
        if self.model_.settings.privacy is not None:
            raise UserError("WAIC looks at the rows again, which the privacy policy of this model does not cover")
        return model_waic(self.model_, open_rows(centers), draws=draws, threads=os.cpu_count() or 1)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted model to a run folder, as the command line does; no pickle is involved."""
        check_is_fitted(self, "model_")
        history = tuple(Record(**record) for record in self.history_)
        save_run(Path(path), Run(self.model_, history, self.converged_), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A fitted estimator from a run folder, its files compared with their checksums."""
        run = load_run(Path(path))
        settings = run.model.settings
        options = asdict(settings)
        seed = options.pop("seed")
        options["privacy"] = None if settings.policy.exact else settings.policy
        outcome = Progress(run.model.prior, run.history, run.converged)
        return cls(**options, random_state=seed)._take(run.model, outcome)

    def _tables(self, given: Any, table: MultiView, values: Mapping[str, Array]) -> dict[str, Any]:
        return {name: tabulate(given, table, rows, list(self.model_.columns[name])) for name, rows in values.items()}


def _seed(random_state: Any) -> int:
    if isinstance(random_state, Integral) and int(random_state) >= 0:
        return int(random_state)
    return int(generator(random_state).integers(2**32))
