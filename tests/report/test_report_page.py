"""The page as a file: whole, closed to the outside, safe with any name, small, and the same for the same run."""

from __future__ import annotations

import base64
import gzip
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vedute.cli.app import run as run_command
from vedute.errors import UserError
from vedute.report.page import SHOWN, render, sections
from vedute.report.plotly_renderer import plotted, safe, short
from vedute.report.reading import read_folder
from vedute.run.run_folder import read_checksums, write_checksums

ORDER = ["fitted", "privacy", "convergence", "variability", "latent", "loadings", "explained", "imputation", "choice"]
NASTY = ["<script>alert(1)</script>", "../../x", '<a href="javascript:alert(1)">x</a>', "%{x} & </td>", "ordinary"]


def test_chapters_come_in_order_and_the_menu_leads_to_them(toy_page: Any) -> None:
    assert [attrs["id"] for tag, attrs in toy_page.tags if tag == "section"] == ORDER
    links = [attrs["href"] for tag, attrs in toy_page.tags if tag == "a"]
    assert links == [f"#{key}" for key in ORDER]


def test_nothing_is_asked_from_outside(toy_page: Any) -> None:
    for tag, attrs in toy_page.tags:
        assert tag not in {"iframe", "object", "embed", "form", "img", "base"}
        for name, value in attrs.items():
            assert not name.startswith("on")
            if name in {"src", "href", "action", "data", "srcset"}:
                assert value is not None
                assert value.startswith("#") or value == "data:,"
    policy = next(a["content"] for t, a in toy_page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    without_plotly = toy_page.text.replace(toy_page.scripts["plotly"], "")
    assert not re.search(r"https?://|url\(|@import", without_plotly)


def test_plotly_is_there_once_and_whole(toy_page: Any) -> None:
    from plotly.offline import get_plotlyjs

    assert toy_page.text.count('id="plotly"') == 1
    assert gzip.decompress(base64.b64decode(toy_page.scripts["plotly"])).decode() == get_plotlyjs()


def test_every_figure_has_a_place_words_and_a_valid_form(toy_page: Any, toy_run: Path) -> None:
    import plotly.graph_objects as go

    places = {attrs["id"] for tag, attrs in toy_page.tags if tag == "figure"}
    assert places == {f"figure-{key}" for key in toy_page.figures}
    assert len(places) >= 8
    told = [figure.alt for chapter in sections(read_folder(toy_run)) for figure in chapter.figures]
    assert all(len(alt) > 30 and alt in toy_page.words for alt in told)
    for options in toy_page.figures.values():
        for option in options:
            go.Figure({"data": option["data"], "layout": option["layout"]})  # refuses properties that do not exist


def test_tables_are_tables(toy_page: Any, toy_run: Path) -> None:
    told = [table for chapter in sections(read_folder(toy_run)) for table in chapter.tables]
    assert len(told) > 8
    for table in told:
        assert all(len(row) == len(table.head) for row in table.rows), table.caption
        assert table.caption in toy_page.words
    cells = sum(tag in {"td", "th"} for tag, _ in toy_page.tags)
    heads = sum(len(table.head) * (1 + (len(table.rows) > SHOWN)) for table in told)
    assert cells == heads + sum(len(table.rows) * len(table.head) for table in told)


def test_text_and_tables_do_not_need_javascript(toy_page: Any, toy_run: Path) -> None:
    words = set(toy_page.words)
    for chapter in sections(read_folder(toy_run)):
        assert set(chapter.sentences) <= words
        assert set(chapter.missing) <= words
    assert any("figures need JavaScript" in word for word in words)


def test_names_are_names_whatever_they_look_like(save: Callable[..., Path], read_page: Callable[[str], Any]) -> None:
    page = read_page(render(read_folder(save(NASTY))))  # the parser finds all tags paired
    assert sum(tag == "script" for tag, _ in page.tags) == 3
    assert len([t for t, a in page.tags if t == "a"]) == len(ORDER)
    for name in NASTY:
        assert name in page.words
    assert "<" not in page.scripts["figures"]
    texts = re.findall(r'"(?:text|name|ticktext)": (\[.*?\]|".*?")', json.dumps(json.loads(page.scripts["figures"])))
    assert any(safe(NASTY[0]) in text for text in texts)
    assert not any("<" in text or ">" in text for text in texts)  # plotly would read tags in them
    templates = set(re.findall(r'"hovertemplate": "(.*?)"', json.dumps(json.loads(page.scripts["figures"]))))
    assert not any(name in template for name in NASTY for template in templates)


def test_short_names_stay_safe() -> None:
    assert short("<" * 50) == "&lt;" * 27 + "…"
    assert short("nice") == "nice"


@pytest.mark.parametrize(("centers", "q", "sizes"), [(300, 2, (4, 3)), (3, 1, (2000, 3))])
def test_large_studies_stay_small(
    save: Callable[..., Path], read_page: Callable[[str], Any], centers: int, q: int, sizes: tuple[int, int]
) -> None:
    page = read_page(render(read_folder(save([f"c{i}" for i in range(centers)], q, sizes, only_first=1))))
    assert len(page.text) < 4e6
    traces = [len(option["data"]) for options in page.figures.values() for option in options]
    assert max(traces) <= 60
    shown = [len(axis.get("ticktext", [])) for options in page.figures.values() for option in options
             for axis in (option["layout"].get("xaxis", {}), option["layout"].get("yaxis", {}))]  # fmt: skip
    assert max(shown) <= 40
    assert len(page.words) > 100


def test_the_same_run_gives_the_same_page(toy_run: Path, toy_page: Any) -> None:
    assert render(read_folder(toy_run)) == toy_page.text
    assert len(toy_page.text) < 2.5e6
    assert str(toy_run.parent) not in toy_page.text


def test_names_of_subjects_are_shown_only_when_asked(toy_run: Path, toy_page: Any) -> None:
    assert not re.search(r"\bs0\d\d\b", toy_page.text.replace(toy_page.scripts["plotly"], ""))
    (asked,) = [chapter for chapter in sections(read_folder(toy_run), ids=True) if chapter.key == "latent"]
    assert re.search(r"\bs0\d\d\b", json.dumps(plotted(asked.figures[0].options[0])["data"]))


def test_a_name_leads_nowhere_else(save: Callable[..., Path]) -> None:
    run = save(["../x", "nice"])
    for folder in (run / "x", run / "local" / "nice"):
        folder.mkdir(parents=True)
        (folder / "data.json").write_text('{"subjects": 12}')
    assert read_folder(run).counts == {"nice": 12}


def test_folders_that_cannot_be_reported_are_refused(
    toy_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a model, of a later format, damaged: one message, status 2, and no page."""
    for name, spoil, words in (
        ("unfinished", _without_model, "the run has not ended; continue it with"),
        ("later", _of_a_later_format, "was written by a newer vedute (format 99"),
        ("damaged", lambda run: (run / "model.npz").write_bytes(b"rubbish"), "model.npz: its checksum is wrong"),
        ("lost", lambda run: (run / "model.npz").unlink(), "model.npz: the file is missing"),
    ):
        run = tmp_path / name
        shutil.copytree(toy_run, run)
        spoil(run)
        assert run_command(["report", str(run)]) == 2
        assert words in capsys.readouterr().err
        assert not (run / "report.html").exists()


def _without_model(run: Path) -> None:
    (run / "model.npz").unlink()
    write_checksums(run, {name: d for name, d in read_checksums(run).items() if name in {"run.json", "study.toml"}})


def _of_a_later_format(run: Path) -> None:
    text = (run / "checksums.json").read_text()
    (run / "checksums.json").write_text(text.replace('"format": 1', '"format": 99'))


def test_a_missing_library_is_named(toy_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(UserError, match=r"pip install 'vedute\[report\]'"):
        render(read_folder(toy_run))


def test_the_command_writes_the_page(toy_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "page.html"
    assert run_command(["report", str(toy_run), "--out", str(out)]) == 0
    assert out.read_text() == render(read_folder(toy_run))
    assert run_command(["report", str(toy_run), "--out", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    assert run_command(["report", str(toy_run), "--out", str(out), "--force"]) == 0
    assert run_command(["report", str(tmp_path / "nowhere")]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert run_command(["report", str(toy_run)]) == 0
    assert (toy_run / "report.html").read_text() == out.read_text()
    (toy_run / "report.html").unlink()
