"""The matplotlib figures: the given Axes come back, with the numbers of the model on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vedute import FederatedPPCA, UserError, plots
from vedute.report import centers
from vedute.report.reading import read_folder
from vedute.run.fitted_model import center_deviation
from vedute.run.run_folder import load_run

PLOTS: dict[str, Callable[..., Axes]] = {
    "holdings": plots.holdings,
    "change": plots.change,
    "spreads": plots.spreads,
    "shares": plots.shares,
    "deviation": plots.deviation,
    "latent": plots.latent,
    "loadings": plots.top_loadings,
    "explained": plots.variance_explained,
    "imputed": lambda run, ax: plots.imputed(run, "lyon", "view3", ax=ax),
}


def axes() -> Axes:
    return Figure().subplots()


@pytest.mark.parametrize("name", PLOTS)
def test_the_same_axes_come_back_and_can_be_drawn(toy_run: Path, name: str, tmp_path: Path) -> None:
    ax = axes()
    assert PLOTS[name](toy_run, ax=ax) is ax
    ax.figure.savefig(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 5000


def test_an_estimator_serves_as_well_as_its_run_folder(toy_run: Path) -> None:
    model = FederatedPPCA.load(toy_run)
    a, b = plots.change(toy_run, ax=axes()), plots.change(model, ax=axes())
    assert np.array_equal(a.lines[0].get_xydata(), b.lines[0].get_xydata())
    assert a.lines[0].get_ydata()[0] == load_run(toy_run).history[1].change


def test_deviations_are_those_of_the_model(toy_run: Path) -> None:
    ax = plots.deviation(toy_run, "view2", ax=axes())
    rows = sorted((r for r in center_deviation(load_run(toy_run).model) if r.view == "view2"), key=lambda r: -r.mean)
    assert list(ax.lines[0].get_xdata()) == [row.mean for row in rows]
    assert [label.get_text() for label in ax.get_yticklabels()] == [row.center for row in rows]


def test_spreads_are_those_of_the_rounds(toy_run: Path) -> None:
    history = load_run(toy_run).history
    ax = plots.spreads(toy_run, "loadings", ax=axes())
    for line, view in zip(ax.lines, ("view1", "view2", "view3"), strict=True):
        assert list(line.get_ydata()) == [record.spreads[view][1] for record in history]


def test_shares_add_up_to_what_lies_between_centers(toy_run: Path) -> None:
    prior = load_run(toy_run).model.prior
    ax = plots.shares(toy_run, ax=axes())
    ends = [bar.get_x() + bar.get_width() for bar in ax.containers[1]]
    found = [centers.share(view, prior) for view in prior.views.values()]
    assert ends == pytest.approx([100 * (share.measuring + share.case_mix) for share in found])


def test_spent_is_what_the_ledgers_say(toy_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"nice": [1.0, 3.0]}
    monkeypatch.setattr("vedute.report.spending.running", lambda folder: told)
    ax = plots.spent(toy_run, ax=axes())
    assert [list(line.get_ydata()) for line in ax.lines] == [[1.0, 3.0]]


def test_the_map_of_what_is_missing_has_a_number_in_every_cell(toy_run: Path) -> None:
    texts = [text.get_text() for text in plots.holdings(toy_run, ax=axes()).texts]
    assert len(texts) == 9
    assert texts.count("none") == 1


def test_every_subject_is_a_point(toy_run: Path) -> None:
    folder = read_folder(toy_run)
    for colour, names in (("center", list(folder.subjects)), ("group", ["case", "control"])):
        ax = plots.latent(toy_run, (2, 1), colour, ax=axes())
        assert {text.get_text() for text in ax.get_legend().get_texts()} == set(names)
        points = np.concatenate([dots.get_offsets() for dots in ax.collections])
        crosses = sorted(line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "P")
        mix = sorted(c.m[::-1].tolist() for c in folder.run.model.centers.values())
        assert crosses == (mix if colour == "center" else [])
        truth = np.concatenate([subjects.x[:, ::-1] for subjects in folder.subjects.values()])
        assert np.array_equal(np.sort(points, axis=0), np.sort(truth, axis=0))


def test_model_choice_is_the_table_of_select(save: Callable[..., Path]) -> None:
    run = save(["a", "b"])
    head = "components,scaling,waic,se,difference,difference_se,p_waic,mae,rounds,converged,recommended\n"
    lines = [f"{q},{s},90,1,{q + k},0.5,4,0.5,3,True,False\n" for k, s in enumerate(("x", "")) for q in (1, 2)]
    (run / "selection.csv").write_text(head + "".join(lines))
    ax = plots.model_choice(run, ax=axes())
    assert [list(box.lines[0].get_ydata()) for box in ax.containers] == [[1, 2], [2, 3]]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["x", "none"]
    whiskers = ax.containers[0].lines[2][0].get_segments()
    assert np.allclose(whiskers[0][:, 1], [0, 2])


def test_dollars_in_names_are_no_formulas(save: Callable[..., Path]) -> None:
    ax = plots.holdings(save(["$x_1$", "plain"]), ax=axes())
    assert r"\$x_1\$" in [label.get_text() for label in ax.get_yticklabels()]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda run: plots.deviation(run, "nothing"), "view 'nothing' is not in the model; known are view1"),
        (lambda run: plots.top_loadings(run, 3), "it has 1 to 2"),
        (lambda run: plots.latent(run, (0, 1)), "component 0 is not in the model"),
        (lambda run: plots.latent(run, colour="age"), "choose 'center' or 'group'"),
        (lambda run: plots.spreads(run, "age"), "choose one of 'mean', 'loadings'"),
        (plots.spent, "no ledger with a finite total"),
        (lambda run: plots.latent(FederatedPPCA.load(run)), "give the run folder"),
        (lambda run: plots.imputed(run, "nice", "view1"), r"missing are \['view3 at lyon'\]"),
        (plots.model_choice, "vedute select"),
        (lambda run: plots.change(FederatedPPCA()), "not fitted"),
    ],
)
def test_mistakes_are_told(toy_run: Path, draw: Callable[[Path], Axes], message: str) -> None:
    with pytest.raises(UserError, match=message):
        draw(toy_run)
    assert pyplot.get_fignums() == []  # no empty figure is left behind
