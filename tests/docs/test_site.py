"""The documentation site builds without a warning, and a page of it asks nothing of the world."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from vedute.cli.app import COMMANDS

ROOT = Path(__file__).parents[2]
LOADED = {
    "script": ("src",), "link": ("href",), "img": ("src", "srcset"), "iframe": ("src",), "source": ("src", "srcset"),
    "audio": ("src",), "video": ("src", "poster"), "object": ("data",), "embed": ("src",), "use": ("href",),
}  # fmt: skip
REQUEST = re.compile(r"""(?:url\(\s*|@import\s+)['"]?(?:https?:)?//""")
PUBLIC = ("FederatedPPCA", "select_components", "SubjectPrivacy", "CenterPrivacy", "PaperPrivacy", "MultiView", "Study")


class Page(HTMLParser):
    """What a page loads, where it links to, and what can be linked to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.styles: list[str] = []
        self.text = path.read_text()
        self._style = False
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.anchors |= {own[name] or "" for name in ("id", "name") if name in own}
        self._style = tag == "style"
        self.styles += [own["style"] or ""] if "style" in own else []
        self.loads += [own[name] or "" for name in LOADED.get(tag, ()) if name in own]
        if tag == "a" and own.get("href"):
            self.links.append(own["href"] or "")

    def handle_data(self, data: str) -> None:
        if self._style:
            self.styles.append(data)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    nowhere = {f"{name}_proxy": "http://127.0.0.1:9" for name in ("http", "https", "all")}  # the build needs no network
    env = {**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


@pytest.fixture(scope="session")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def outside(address: str) -> bool:
    return bool(re.match(r"(?:[a-z]+:)?//", address.strip()))


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    assert len(pages) > 15
    for path, page in pages.items():
        assert [address for address in page.loads if outside(address)] == [], path
        assert not any(REQUEST.search(style) for style in page.styles), path
    for style in site.rglob("*.css"):
        assert not REQUEST.search(style.read_text()), style
    assert sum(len(page.loads) for page in pages.values()) > 50  # the parser does see what is loaded


def test_every_link_inside_the_site_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    followed = 0
    for path, page in pages.items():
        if path.name == "404.html":  # its links start from the root of whatever server it is put on
            continue
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme or outside(link):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), (path, link)
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, (path, link)
            followed += 1
    assert followed > 200


def test_formulas_are_drawn_by_the_browser_itself(site: Path, pages: dict[Path, Page]) -> None:
    model = pages[site / "model.html"].text
    assert model.count("<math") > 40
    for page in pages.values():
        assert "arithmatex" not in page.text
        assert "$$" not in re.sub(r"<(pre|code).*?</\1>", "", page.text, flags=re.DOTALL)


def test_the_reference_has_every_command_and_public_name(site: Path, pages: dict[Path, Page]) -> None:
    commands, python = (pages[site / "reference" / f"{name}.html"] for name in ("commands", "python"))
    for name in COMMANDS:
        assert f"vedute-{name}" in commands.anchors
        assert f"Usage: vedute {name}" in commands.text
    for name in PUBLIC:
        assert f"vedute.{name}" in python.anchors
    assert {"vedute.plots.deviation", "vedute.datasets.make_sd", "vedute.scenarios.split"} <= python.anchors
    assert "vedute.FederatedPPCA.harmonise" in python.anchors
