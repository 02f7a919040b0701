"""What importing the package must not cost."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["vedute", "vedute.datasets", "vedute.scenarios"])
def test_importing_loads_no_optional_package(module):
    heavy = ("nvflare", "torch", "plotly", "opendp", "dp_accounting", "mudata", "anndata", "matplotlib", "rich")
    code = f"import {module}, sys; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_every_public_name_can_be_imported_and_is_listed():
    code = "import vedute as v; [getattr(v, name) for name in v.__all__]; print(set(v.__all__) <= set(dir(v)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "True"
    with pytest.raises(ImportError, match="cannot import name 'Nothing'"):
        from vedute import Nothing  # noqa: F401


def test_the_command_line_answers_before_the_heavy_packages_are_loaded():
    heavy = ("scipy", "pandas", "sklearn", "pyarrow", "joblib", "rich")
    code = f"import vedute.cli.app, sys; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_help_and_the_estimator_need_no_progress_bar():
    code = (
        "import sys, vedute.estimator; from vedute.cli.app import run; "
        "status = run(['--help']); print(status, 'rich' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "0 False"


@pytest.mark.parametrize("module", ["executor", "controller", "engine"])
def test_a_job_of_a_federation_starts_light(module):
    """Every job starts these in a process of its own at the server and at each center."""
    heavy = ("pandas", "sklearn", "scipy.stats", "torch", "pyarrow", "matplotlib", "joblib", "rich")
    code = f"import vedute.federation.nvflare.{module}, sys; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words", ["run study.toml", "status", "serve kit", "join kit --data node.toml", "init study.toml"]
)
def test_without_its_extra_a_federation_says_what_to_install(tmp_path, words):
    (tmp_path / "study.toml").write_text('[views.A]\ncolumns = ["x"]\n')
    lacking = "import sys; sys.modules.update(nvflare=None, cryptography=None); from vedute.cli import main; "
    given = ["--out", "kits", "--centers", "a,b", "--server", "localhost"] if words.startswith("init") else []
    given = ["--out", "r"] if words.startswith("run") else given
    call = f"main(['federation', *{words.split()!r}, *{given!r}])"
    done = subprocess.run([sys.executable, "-c", lacking + call], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert 'pip install "vedute[nvflare]"' in done.stderr
