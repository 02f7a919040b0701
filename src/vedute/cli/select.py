"""``vedute select``."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vedute.cli.options import FilePath, force_option, json_option, study_argument
from vedute.data.scaling import SCALINGS
from vedute.errors import UserError
from vedute.progress import progress_bar
from vedute.run.settings import PRESETS

if TYPE_CHECKING:
    from vedute.data.study import Study
    from vedute.run.model_choice import Selection

TABLE, FIGURE = "selection.csv", "selection.png"
NEAR = 10.0  # differences of WAIC below this are drawn on a plain scale, above on a logarithmic one
MOST = 1000  # numbers of components in a range; more is a slip of the pen


def parse_components(text: str) -> tuple[int, ...]:
    """``1-8``, ``2,4,8`` or both mixed."""
    found: set[int] = set()
    for part in text.split(","):
        ends = part.strip().split("-")
        if len(ends) > 2 or not all(end.strip().isdecimal() for end in ends):
            raise UserError(f"--components {text!r}: write a range such as 1-8, or numbers such as 2,4,8")
        low, high = int(ends[0]), int(ends[-1])
        if not 1 <= low <= high < low + MOST:
            raise UserError(f"--components {text!r}: a range goes upwards from at least 1, as in 1-8")
        found.update(range(low, high + 1))
    return tuple(sorted(found))


@click.command()
@study_argument
@click.option("--components", default="1-8", show_default=True, metavar="RANGE", help="Numbers to try: 1-8, or 2,4,8.")
@click.option("--out", type=FilePath, required=True, metavar="RUN", help="The folder to write.")
@click.option(
    "--scaling",
    "scalings",
    type=click.Choice([*SCALINGS, "none"]),
    multiple=True,
    help="Scaling of features; may be repeated. [default: shared-standard and shared-view, compared]",
)
@click.option("--starts", type=click.IntRange(1), default=1, show_default=True, help="Starting values to try for each.")
@click.option("--rounds", type=int, metavar="R", help="Most rounds to run.")
@click.option("--preset", type=click.Choice(PRESETS), help="Variant of the algorithm.")
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="S", help="Seed of starts and draws.")
@click.option("--jobs", type=click.IntRange(1), help="Processes at once. [default: one for each core]")
@click.option(
    "--ledgers", type=FilePath, metavar="DIR", help="Where the ledgers are. [default: ledgers/ beside the study]"
)
@force_option
@json_option
def command(
    study: Path, components: str, out: Path, ledgers: Path | None, force: bool, as_json: bool, **options: Any
) -> None:
    """Choose the number of components for STUDY by WAIC.

    Fits every number, prints a table, and writes RUN: the recommended model as a run folder, selection.csv and
    selection.png. Recommended are the fewest components within two standard errors of the best WAIC.

    A study that asks for the policy subject is never looked at beyond its one release: there the number is chosen by
    how well the released moments are met, at no further cost.
    """
    from vedute.data.study import Study
    from vedute.run.model_choice import select_components, table

    wanted = parse_components(components)
    _refuse(out, force)
    scalings, search = options.pop("scalings"), {name: options.pop(name) for name in ("starts", "seed", "jobs")}
    given = {name: value for name, value in options.items() if value is not None}
    if scalings:
        given["scalings"] = tuple(None if name == "none" else name for name in scalings)
    loaded = Study.load(study)
    if loaded.privacy.policy != "none":
        _select_privately(loaded, wanted, out, ledgers, given, as_json)
        return
    with progress_bar("reading", shown=sys.stderr.isatty()) as tell:
        on_fit = None if tell is None else lambda done, total: tell(f"fit {done}/{total}", done, total)
        found = select_components(loaded, wanted, on_fit=on_fit, **search, **given)
    _write(out, found, loaded.text, table(found).to_csv(index=False))
    _tell(found, out, as_json)


def _select_privately(
    study: Study, components: tuple[int, ...], out: Path, ledgers: Path | None, given: dict[str, Any], as_json: bool
) -> None:
    from vedute.cli.fit import wanted_policy
    from vedute.data.files import write_whole
    from vedute.data.rows import StudyRows
    from vedute.run import run_folder
    from vedute.run.exchange import Ledgers
    from vedute.run.model_choice import select_by_release
    from vedute.run.settings import Settings

    policy = wanted_policy(study, {"privacy": None})
    scaling = given.pop("scalings", ("declared",))[0]
    settings = Settings(1, scaling=scaling, privacy=policy, **given)
    rows = StudyRows(study, clipped=True)
    home = Ledgers(ledgers or study.path.parent / "ledgers")
    misfits, found = select_by_release(rows, settings, components, home)
    table = "components,misfit\n" + "".join(f"{q},{value!r}\n" for q, value in misfits.items())
    with run_folder.opened(out):
        run_folder.begin(out, study.text, found.model.settings)
        write_whole(out / TABLE, table.encode())
        run_folder.finish(out, run_folder.Run(found.model, found.progress.history, found.progress.converged))
    best = found.model.prior.q
    if as_json:
        click.echo(json.dumps({"components": best, "run": str(out), "misfits": misfits}))
        return
    for q, value in misfits.items():
        click.echo(f"{q:>10}  {value:>14.1f}" + ("  <- recommended" if q == best else ""))
    click.echo(f"{best} components meet the released moments best; that cost no further privacy: {out}")


def _refuse(out: Path, force: bool) -> None:
    from vedute.run.run_folder import Stage, stage

    if stage(out) is not Stage.NEW and not force:
        raise UserError(f"{out}: there is a run already; choose another folder, or replace it with --force")


def _write(out: Path, selection: Selection, study: str, table: str) -> None:
    from vedute.data.files import write_whole
    from vedute.run import run_folder

    chosen = selection.choices[selection.recommended]
    run = run_folder.Run(selection.model, selection.histories[selection.recommended], chosen.converged)
    with run_folder.opened(out):
        run_folder.begin(out, study, selection.model.settings)
        write_whole(out / TABLE, table.encode())
        write_whole(out / FIGURE, _picture(selection))
        run_folder.finish(out, run)


def _picture(selection: Selection) -> bytes:
    """WAIC and error by number of components, a line for each scaling, the recommended choice marked."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from vedute.plots import draw_lines
    from vedute.report.convergence import mae_lines, waic_lines

    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    draw_lines(waic_lines(selection.choices, errors=1.0), left, marker="o", capsize=3)
    draw_lines(mae_lines(selection.choices), right, marker="o")
    left.set_yscale("symlog", linthresh=NEAR)
    left.axhline(0.0, color="0.7", linewidth=1.0, zorder=0)
    left.set_ylabel("WAIC, difference to the best (± one standard error)")
    left.legend(title="scaling", frameon=False)
    chosen = selection.choices[selection.recommended]
    for axes, value in ((left, chosen.difference), (right, chosen.mae)):
        axes.plot(chosen.components, value, marker="o", markersize=14, fillstyle="none", color="black")
        axes.set_xticks(sorted({choice.components for choice in selection.choices}))
    figure.suptitle(f"recommended: {chosen.components} components, scaling {chosen.scaling or 'none'}")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue()


def _tell(selection: Selection, out: Path, as_json: bool) -> None:
    chosen = selection.choices[selection.recommended]
    if as_json:
        rows = [asdict(choice) for choice in selection.choices]
        summary = {"components": chosen.components, "scaling": chosen.scaling, "run": str(out), "choices": rows}
        click.echo(json.dumps(summary, ensure_ascii=False))
        return
    head = ("components", "scaling", "WAIC", "se", "difference", "se", "parameters", "MAE", "rounds")
    widths = (10, 15, 12, 8, 12, 8, 10, 7, 6)
    click.echo("  ".join(name.rjust(width) for name, width in zip(head, widths, strict=True)))
    for i, choice in enumerate(selection.choices):
        cells = (
            str(choice.components), str(choice.scaling or "none"), f"{choice.waic:.1f}", f"{choice.se:.1f}",
            f"{choice.difference:.1f}", f"{choice.difference_se:.1f}", f"{choice.p_waic:.0f}", f"{choice.mae:.4f}",
            f"{choice.rounds}" + ("" if choice.converged else "+"),
        )  # fmt: skip
        mark = "  <- recommended" if i == selection.recommended else "  (best WAIC)" if i == selection.best else ""
        click.echo("  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)) + mark)
    click.echo(f"{chosen.components} components: the fewest within two standard errors of the best WAIC: {out}")
    if len(selection.choices) > 1 and chosen.components == max(choice.components for choice in selection.choices):
        click.echo("that is the largest number tried; more may be better still", err=True)
