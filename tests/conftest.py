"""Settings for all tests: hypothesis draws the same examples every time and never judges by the clock."""

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.load_profile("fixed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests measured without judging it: when pages were ready in the browser."""
    done = [report for report in terminalreporter.getreports("") if report.when == "teardown"]
    for line in sorted(
        str(value) for report in done for name, value in report.user_properties if name == "interactive"
    ):
        terminalreporter.write_line(line)
