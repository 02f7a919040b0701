"""What importing the package must not cost."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["vedute", "vedute.datasets", "vedute.scenarios"])
def test_importing_loads_no_optional_package(module):
    heavy = ("nvflare", "torch", "plotly", "opendp", "dp_accounting", "mudata", "anndata", "matplotlib")
    code = f"import {module}, sys; print([name for name in {heavy!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
