"""Run folders to report on, and a page taken apart by an HTML parser."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toy_study import write_study
from vedute import FederatedPPCA
from vedute.cli.app import run as run_command
from vedute.report.page import render
from vedute.report.reading import read_folder

VOID = {"meta", "link", "br", "img", "input", "hr"}


@dataclass
class Page(HTMLParser):
    """All that the tests ask of a page: its tags, its visible text, its scripts."""

    text: str
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    scripts: dict[str | None, str] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.feed(self.text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            name = self.tags[-1][1].get("id")
            self.scripts[name] = self.scripts.get(name, "") + data
        elif self.open and self.open[-1] != "style" and data.strip():
            self.words.append(data.strip())

    @property
    def figures(self) -> dict[str, list[dict[str, Any]]]:
        """The states of every figure."""
        found = json.loads(self.scripts["figures"])["figures"]
        return {figure["key"]: figure["options"] for figure in found}


@pytest.fixture(scope="session")
def toy_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three centers, one lacks a view, rows at home, groups."""
    folder = tmp_path_factory.mktemp("report")
    out = folder / "run"
    assert (
        run_command(["fit", str(write_study(folder / "study")), "--out", str(out), "--rounds", "8", "--tol", "none"])
        == 0
    )
    return out


@pytest.fixture(scope="session")
def toy_page(toy_run: Path) -> Page:
    return Page(render(read_folder(toy_run)))


@pytest.fixture(scope="session")
def save(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Fit centers of given names, without a study, and save the run: no rows are kept."""

    def save(names: list[str], q: int = 2, sizes: tuple[int, int] = (4, 3), only_first: int = 0) -> Path:
        rng = np.random.default_rng(0)
        W = [rng.normal(size=(d, q)) for d in sizes]
        centers = {}
        for i, name in enumerate(names):
            x = rng.normal(size=(12, q))
            views = {f"v{k}": x @ w.T + rng.normal(0, 0.5, (12, len(w))) + rng.normal() for k, w in enumerate(W)}
            centers[name] = {"v0": views["v0"]} if i < only_first else views
        out = tmp_path_factory.mktemp("saved") / "run"
        FederatedPPCA(q, rounds=3, tol=None, random_state=0).fit(centers).save(out)
        return out

    return save


@pytest.fixture(scope="session")
def read_page() -> Callable[[str], Page]:
    return Page
