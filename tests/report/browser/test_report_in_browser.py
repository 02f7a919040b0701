"""The page in a real browser, from disk: complete, silent, usable, accessible, on a desk and on a phone."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By

from toy_study import write_study
from vedute.cli.app import run as run_command
from vedute.report.page import render
from vedute.report.reading import Folder, LatentMeans, read_folder
from vedute.run.run_folder import LOCAL, read_checksums, write_checksums

FIGURES = ["holdings", "change", "spreads", "shares", "deviation", "latent", "loadings", "explained", "imputation"]
NASTY = ["<script>alert(1)</script>", "../../x", "<b>bold</b>", "a & b", '"quoted"']


def written(page: str, folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(page)
    return path


@pytest.fixture(scope="session")
def full_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run at home with three components and a comparison of their number: every chapter has its figure."""
    folder = tmp_path_factory.mktemp("full")
    study, run = write_study(folder / "study"), folder / "run"
    asked = ["--components", "3", "--rounds", "6", "--tol", "none"]
    assert run_command(["fit", str(study), "--out", str(run), *asked]) == 0
    head = "components,scaling,waic,se,difference,difference_se,p_waic,mae,rounds,converged,recommended\n"
    (run / "selection.csv").write_text(head + "".join(f"{q},x,{q},1,{q},1,4,0.5,3,True,{q == 2}\n" for q in (1, 2, 3)))
    return written(render(read_folder(run)), folder)


def marks(browser: Any, figure: str) -> int:
    """How many points, lines, bars and cells are drawn, not only asked for."""
    kinds = (".points path", ".js-line", ".bars path", ".heatmaplayer image")
    inside = ", ".join(f"#figure-{figure} {kind}" for kind in kinds)
    return int(browser.ask("document.querySelectorAll(arguments[0]).length", inside))


@pytest.mark.parametrize("width", ["desktop", "phone"])
@pytest.mark.usefixtures("told")
def test_every_figure_draws_and_nothing_leaves_the_page(
    browser: Any, full_page: Path, width: str, tmp_path: Path
) -> None:
    browser.open(full_page, width)
    assert {name: marks(browser, name) for name in [*FIGURES, "choice"] if not marks(browser, name)} == {}
    assert browser.ask("document.querySelectorAll('figure').length") == len(FIGURES) + 1
    assert browser.complaints() == []
    assert {url.split(":")[0] for url in browser.requests()} <= {"file", "data", "blob"}
    assert not browser.sticks_out()
    wide = browser.ask(
        "[...document.querySelectorAll('.plot')].filter((p) => p.scrollWidth > p.clientWidth + 1).length"
    )
    assert wide == 0
    assert browser.axe() == []
    browser.screenshot(tmp_path / f"{width}.png")
    assert (tmp_path / f"{width}.png").stat().st_size > 100_000


def test_the_legend_hides_and_shows(browser: Any, full_page: Path) -> None:
    browser.open(full_page)
    first = "document.querySelector('#figure-loadings .legendtoggle')"
    visible = "document.querySelector('#figure-loadings .plot').data[0].visible"
    before = marks(browser, "loadings")
    browser.ask(f"{first}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    toggle = browser.driver.find_element(By.CSS_SELECTOR, "#figure-loadings .legendtoggle")
    ActionChains(browser.driver).click(toggle).perform()
    browser.wait(f"{visible} === 'legendonly'")
    assert marks(browser, "loadings") < before
    ActionChains(browser.driver).pause(0.5).click(toggle).perform()
    browser.wait(f"{visible} === true")
    assert marks(browser, "loadings") == before


def test_the_menus_choose(browser: Any, full_page: Path, tmp_path: Path) -> None:
    browser.open(full_page)
    plot = "document.querySelector('#figure-{} .plot')"
    deviation = plot.format("deviation")
    seen = {}
    for view in ("view2", "view1"):
        browser.choose("deviation", "View", view)
        seen[view] = browser.ask(f"{deviation}.data[0].x")
    assert seen["view1"] != seen["view2"]
    browser.choose("latent", "Colour by", "group")
    latent = plot.format("latent")
    browser.wait(f"{latent}.data[0].name === 'case'")
    browser.choose("latent", "Across", "component 2")
    browser.wait(f"{latent}.layout.xaxis.title.text === 'component 2'")
    assert browser.ask(f"{latent}.data[0].x.slice(0, 3)") == browser.ask(f"{latent}.data[0].y.slice(0, 3)")
    assert browser.complaints() == []


def test_text_and_tables_need_no_javascript(browser: Any, full_page: Path) -> None:
    browser.open(full_page, scripts=False)
    text = browser.ask("document.body.innerText")
    assert "The figures need JavaScript" in text
    assert "differs most, in view" in text
    assert "NOT PRIVATE" in text
    assert browser.ask("document.querySelectorAll('.main-svg').length") == 0
    assert browser.ask("[...document.querySelectorAll('table')].filter((t) => t.rows.length > 1).length") > 8
    browser.open(full_page)
    assert "The figures need JavaScript" not in browser.ask("document.body.innerText")


def test_in_print_nothing_is_folded_or_cut(browser: Any, full_page: Path) -> None:
    browser.open(full_page)
    assert browser.ask("document.querySelectorAll('details:not([open])').length") > 0
    printed = base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", {})["data"])
    assert printed.startswith(b"%PDF")
    assert browser.ask("document.querySelectorAll('details:not([open])').length") == 0
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    style = "getComputedStyle(document.querySelector('{}')).{}"
    assert browser.ask(style.format("nav", "display")) == "none"
    assert browser.ask(style.format(".scroll", "overflowX")) == "visible"
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_a_report_made_at_the_server_has_no_subjects_and_says_why(browser: Any, toy_run: Path, tmp_path: Path) -> None:
    server = tmp_path / "run"
    shutil.copytree(toy_run, server)
    shutil.rmtree(server / LOCAL)
    write_checksums(server, {name: d for name, d in read_checksums(server).items() if not name.startswith(LOCAL)})
    assert run_command(["report", str(server)]) == 0
    browser.open(server / "report.html")
    missing = browser.ask("[...document.querySelectorAll('#latent .missing li')].map((li) => li.innerText).join()")
    assert "local/" in missing
    assert browser.ask("document.querySelector('#figure-latent .plot').data.every((t) => t.x.length !== 30)")
    assert browser.axe() == []
    assert browser.complaints() == []


@pytest.mark.usefixtures("told")
def test_names_are_shown_not_obeyed(browser: Any, save: Callable[..., Path], tmp_path: Path) -> None:
    browser.open(written(render(read_folder(save(NASTY, only_first=2))), tmp_path))
    assert browser.ask("document.querySelectorAll('script').length") == 4  # three of the page, and plotly
    assert browser.ask("document.querySelectorAll('main b, .plot b').length") == 0
    text = browser.ask("document.body.innerText")
    labels = browser.ask("[...document.querySelectorAll('#figure-holdings .ytick text')].map((t) => t.textContent)")
    for name in NASTY:
        assert name in text
        assert name in labels
    assert browser.complaints() == []
    assert browser.axe() == []


CASES: dict[str, tuple[int, int, tuple[int, int]]] = {
    "300 centers": (300, 2, (4, 3)),
    "one component": (3, 1, (4, 3)),
    "2,000 features": (3, 2, (2000, 3)),
}


def with_subjects(folder: Folder) -> Folder:
    """A dozen subjects at every center, as at home."""
    x = np.random.default_rng(0).normal(size=(12, folder.run.model.prior.q))
    one = LatentMeans(tuple(map(str, range(12))), ("case", "control") * 6, x)
    return replace(folder, counts=dict.fromkeys(folder.centers, 12), subjects=dict.fromkeys(folder.centers, one))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("told")
def test_large_and_odd_studies_stay_readable(
    browser: Any, save: Callable[..., Path], case: str, tmp_path: Path
) -> None:
    centers, q, sizes = CASES[case]
    folder = with_subjects(read_folder(save([f"c{i}" for i in range(centers)], q, sizes, only_first=1)))
    page = written(render(folder), tmp_path)
    for width in ("phone", "desktop"):
        browser.open(page, width)
        assert browser.complaints() == []
        assert not browser.sticks_out()
        for name in ("holdings", "deviation", "latent", "loadings", "explained", "imputation"):
            assert marks(browser, name) > 0, name
    heights = "[...arguments[0].querySelectorAll('.ytick text')].map((label) => label.getBoundingClientRect().y)"
    for plot in browser.ask("[...document.querySelectorAll('.plot')]"):
        places = sorted(browser.ask(heights, plot))
        assert all(b - a > 9 for a, b in pairwise(places))  # labels beside an axis can be read
    assert browser.axe() == []
