"""Numbers in docs/privacy.md come from the code: ``python tests/privacy/test_docs_numbers.py`` writes them anew."""

import math
import re
from pathlib import Path

import pytest

from vedute.privacy.accounting import noise_multiplier, paper_claim, spent_epsilon, zhao_multiplier
from vedute.privacy.policies.center import warning_below_100
from vedute.privacy.policies.paper import paper_events, ratio
from vedute.privacy.release import CENTER

PAGE = Path(__file__).parents[2] / "docs" / "privacy.md"


def theorem4() -> list[str]:
    lines = [
        "| eps per mechanism | rounds | Theorem 4 | basic composition | true eps at 1e-5, at most |",
        "|---|---|---|---|---|",
    ]
    for epsilon in (0.1, 1, 10):
        for rounds in (1, 100):
            claim = paper_claim(epsilon, 0.01, 4)
            true = spent_epsilon(paper_events(epsilon, 0.01, 4, rounds), 1e-5, CENTER)
            shown = f"{true:.0f}" if true >= 1000 else f"{true:.3g}"
            basic = f"({claim[0] * rounds:g}, {claim[1] * rounds:g})"
            lines.append(f"| {epsilon:g} | {rounds} | ({claim[0]:g}, {claim[1]:g}) | {basic} | {shown} |")
    return lines


def theorem3() -> list[str]:
    lines = [
        "| eps, delta | Theorem 3: noise / sensitivity | least possible | more than needed |",
        "|---|---|---|---|",
    ]
    for epsilon in (1, 10):
        theirs, least = zhao_multiplier(epsilon, 0.01), noise_multiplier(epsilon, 0.01)
        lines.append(f"| {epsilon}, 0.01 | {theirs:.4f} | {least:.4f} | {100 * (theirs / least - 1):.0f} % |")
    return lines


def rho() -> list[str]:
    lines = ["| eps (delta = 0.01) | const | centers | rho | so |", "|---|---|---|---|---|"]
    for epsilon, const, centers in [(10, 1, 3), (10, 1, 6), (1, 1, 3), (1, 0.2, 3), (1, 0.3, 3)]:
        r = ratio(const, epsilon, 0.01, centers)
        rounds = math.ceil(math.log(1e-4) / math.log(r)) if r < 1 else 0
        so = f"collapses: a ten-thousandth after {rounds} rounds" if r < 1 else "explodes"
        lines.append(f"| {epsilon} | {const:g} | {centers} | {r:.3f} | {so} |")
    return lines


def multipliers() -> list[str]:
    lines = ["| total eps (delta = 1e-5) | 1 release | 10 releases | 100 releases |", "|---|---|---|---|"]
    for epsilon in (1, 3, 10):
        cells = " | ".join(f"{noise_multiplier(epsilon, 1e-5, n):.4f}" for n in (1, 10, 100))
        lines.append(f"| {epsilon} | {cells} |")
    return lines


def few() -> list[str]:
    z = noise_multiplier(1.0, 1e-5, 100)
    three, thousand = 2 * z / math.sqrt(3), 2 * z / math.sqrt(1000)
    assert f"{three:.3g} times" in str(warning_below_100(3, 1.0, z))
    start = "With 3 centers, eps = 1, delta = 1e-5 and 100 rounds, the noise on every entry of the mean update is"
    return [
        f"{start} {three:.3g} times the",
        f"longest update that is let through; with 1,000 centers it is {thousand:.3g} times.",
    ]


PARTS = {"theorem4": theorem4, "theorem3": theorem3, "rho": rho, "multipliers": multipliers, "few": few}


def written(name: str, page: str) -> str:
    found = re.search(rf"<!-- numbers: {name} -->\n(.*?)\n<!-- end -->", page, flags=re.S)
    assert found is not None, f"docs/privacy.md has no part {name}"
    return found.group(1)


@pytest.mark.parametrize("name", PARTS)
def test_the_page_says_what_the_code_says(name: str) -> None:
    assert written(name, PAGE.read_text(encoding="utf-8")) == "\n".join(PARTS[name]())


def test_other_numbers_in_the_text() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert f"{math.exp(10):,.0f}" == "22,026"
    assert "22,026" in page
    threshold = 1 / ratio(1.0, 1.0, 0.01, 3)
    assert f"{threshold:.3f}" == "0.224"
    assert "0.224" in page


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    for part, make in PARTS.items():
        text = text.replace(written(part, text), "\n".join(make()))
    PAGE.write_text(text, encoding="utf-8")
