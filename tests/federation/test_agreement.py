"""What a hospital is told before it agrees: the policy that counts, in words, with its numbers."""

from __future__ import annotations

import pytest

from vedute.data.study import Study
from vedute.errors import UserError
from vedute.federation.agreement import disclosure


@pytest.mark.parametrize(
    ("study", "own", "parts"),
    [
        ("", '[privacy]\npolicy="subject"\nepsilon=2\ndelta=1e-6\n',
         ["one matrix, once", "each single patient is eps = 2, delta = 1e-06, if that patient is replaced"]),
        ('scaling="none"\n', '[privacy]\npolicy="center"\nepsilon=3\ndelta=1e-5\n',
         ["at most 100 rounds, one clipped vector", "hospital as a whole, over all rounds, is eps = 3, delta = 1e-05"]),
        ('scaling="none"\nrounds=7\n', '[privacy]\npolicy="paper"\n',
         ["at most 7 rounds", "WITHOUT noise", "no total is promised"]),
        ('scaling="none"\n[privacy]\npolicy="paper"\nfirst_round="public"\n', "", ["The first round has noise"]),
        ('[privacy]\npolicy="subject"\nepsilon=9\ndelta=1e-4\n', "", ["eps = 9, delta = 0.0001"]),
        ('[privacy]\npolicy="subject"\nepsilon=9\ndelta=1e-4\n', '[privacy]\npolicy="none"\n', ["policy 'none'"]),
        ('scaling="shared-minmax"\n', "", ["its lowest and its highest value", "the value of a real patient"]),
        ("smallest_sd=0.01\nlargest_sd=5\n", "", ["standard deviations outside 0.01 to 5"]),
    ],
)  # fmt: skip
def test_every_policy_is_told_in_words(tmp_path, study, own, parts):
    (tmp_path / "clinic.csv").write_text("id,age\na,50\n")
    (tmp_path / "study.toml").write_text('[views.CLINIC]\ncolumns = ["age"]\n[federation]\n' + study)
    (tmp_path / "node.toml").write_text('center = "nice"\n[files]\nCLINIC = "clinic.csv"\n' + own)
    words = "\n".join(disclosure(Study.load_node(tmp_path / "study.toml", tmp_path / "node.toml")))
    assert not [part for part in parts if part not in words]
    assert "Never sent: a patient's row" in words
    assert ("WARNING" in words) == ("minmax" in study)


def test_a_policy_that_the_scaling_would_undo_is_refused(tmp_path):
    (tmp_path / "clinic.csv").write_text("id,age\na,50\n")
    (tmp_path / "study.toml").write_text('[views.CLINIC]\ncolumns = ["age"]\n')
    own = '[privacy]\npolicy = "center"\nepsilon = 1\ndelta = 1e-5\n'
    (tmp_path / "node.toml").write_text('center = "nice"\n[files]\nCLINIC = "clinic.csv"\n' + own)
    with pytest.raises(UserError, match="would leak past the policy 'center'"):
        disclosure(Study.load_node(tmp_path / "study.toml", tmp_path / "node.toml"))
