"""Encrypted sums across machines: who is given which key, what is wrong with kits, and a run of real processes."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hospitals import CENTERS, as_one_study, make_hospitals
from machines import VEDUTE, Machines
from vedute.data.study import Study
from vedute.errors import UserError
from vedute.federation.encrypted import ROUND
from vedute.federation.loop import Record
from vedute.federation.nvflare.encrypted_kits import LEAD_CERTIFICATE, PARAMETERS, SECRET, center_keys, server_keys
from vedute.federation.nvflare.executor import open_site
from vedute.federation.nvflare.kits import add_kit, make_kits
from vedute.federation.nvflare.opening import open_kit
from vedute.federation.nvflare.processes import settle
from vedute.federation.resumable import Request, Watch, fit_study
from vedute.federation.settings import Settings
from vedute.federation.store import Ended, Stage, begin, finish_unread, load_run, stage


@pytest.fixture
def kits(tmp_path):
    shared, nodes = make_hospitals(tmp_path, federation='aggregation = "encrypted"')
    make_kits(Study.load_shared(shared), CENTERS, "localhost", 8002, tmp_path / "kits", 2)
    return tmp_path / "kits", shared, nodes


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_centers_have_the_key_the_server_parameters_and_the_lead_neither(kits):
    folder, shared, nodes = kits
    secrets = {(folder / center / "local" / SECRET).read_bytes() for center in CENTERS}
    assert len(secrets) == 1
    for center in CENTERS:
        assert (folder / center / "local" / SECRET).stat().st_mode & 0o777 == 0o600
        assert center_keys(folder / center)[1] == (folder / "lead/startup/client.crt").read_bytes()
        assert PARAMETERS not in files(folder / center)
    assert {SECRET, LEAD_CERTIFICATE} & files(folder / "server") == set()
    assert {SECRET, PARAMETERS, LEAD_CERTIFICATE} & files(folder / "lead") == set()
    (secret,) = secrets
    for path in (folder / "server").rglob("*"):
        assert not (path.is_file() and secret[-1000:] in path.read_bytes())
    share = center_keys(folder / "nice")[0].encrypt(np.ones(3), ROUND)
    np.testing.assert_array_equal(center_keys(folder / "paris")[0].decrypt(share, ROUND, 3, 1), np.ones(3))
    with pytest.raises(ValueError, match="secret_key"):
        server_keys(folder / "server").decrypt(share, ROUND, 3, 1)
    settle(open_kit(folder / "nice", "center"), nodes["nice"], folder / "home")
    assert type(open_site(folder / "nice", print)).__name__ == "EncryptedSite"
    added = add_kit(Study.load_shared(shared), "milan", folder)
    assert (added / "local" / SECRET).read_bytes() == secret
    assert (added / "local" / LEAD_CERTIFICATE).is_file()


def test_a_kit_without_its_key_or_with_an_open_one_is_refused(kits):
    folder, _, _ = kits
    key = folder / "nice/local" / SECRET
    key.chmod(0o644)
    with pytest.raises(UserError, match="chmod 600"):
        open_kit(folder / "nice", "center")
    key.unlink()
    with pytest.raises(UserError, match=f"local/{SECRET} is missing"):
        open_kit(folder / "nice", "center")
    (folder / "server/local" / PARAMETERS).unlink()
    with pytest.raises(UserError, match=f"local/{PARAMETERS} is missing"):
        open_kit(folder / "server", "server")
    (folder / "authority" / SECRET).unlink()
    with pytest.raises(UserError, match="no center can be added"):
        add_kit(Study.load_shared(kits[1]), "milan", folder)
    assert not (folder / "milan").exists()


@pytest.mark.parametrize(
    ("federation", "privacy", "why"),
    [
        ('scaling = "shared-minmax"', "", "is no sum"),
        ("", 'policy = "subject"\nepsilon = 1\ndelta = 1e-5', "needs no encryption"),
        ('model_to = "milan"', "", "model_to = 'milan' is none of the centers"),
    ],
)
def test_studies_that_cannot_be_encrypted_get_no_kits(tmp_path, federation, privacy, why):
    shared, _ = make_hospitals(tmp_path, federation=f'aggregation = "encrypted"\n{federation}', privacy=privacy)
    with pytest.raises(UserError, match=why):
        make_kits(Study.load_shared(shared), CENTERS, "localhost", 8002, tmp_path / "kits", 2)
    assert not (tmp_path / "kits").exists()


def test_real_processes_agree_on_a_model_that_the_server_never_sees(tmp_path):
    """Once for the lead, who is handed the model by Paris; the server's disk is searched for its numbers."""
    machines = Machines(tmp_path, federation='aggregation = "encrypted"\nmodel_to = "paris"\ntimeout = 20')
    options = ("--rounds", "4", "--tol", "none", "--iterations", "3")
    try:
        machines.start("server", *CENTERS)
        lead = machines.lead("run", *options)
        lead.finish()
        found = load_run(lead.out)
        assert "All centers share one key" in machines.said("nice")
    finally:
        machines.close()
    whole = Study.load(as_one_study(machines.shared, machines.nodes))
    given = {name: getattr(found.model.settings, name) for name in vars(found.model.settings)}
    silent = Watch(lambda settings, done: None, lambda progress: None)
    expected = fit_study(whole, tmp_path / "one", Request(given), silent).model.prior
    for view, prior in expected.views.items():
        size = np.abs(prior.W).max()
        np.testing.assert_allclose(found.model.prior.views[view].W, prior.W, rtol=0, atol=1e-9 * size)
    kept = [path.read_bytes() for path in machines.kits["server"].rglob("*") if path.is_file()]
    for number in np.concatenate([prior.W.ravel() for prior in found.model.prior.views.values()]):
        assert not any(np.float64(number).tobytes() in data for data in kept)
    (server,) = (machines.kits["server"] / "runs").iterdir()
    assert stage(server) is Stage.FINISHED
    with pytest.raises(UserError, match="with each center"):
        load_run(server)
    assert '"rounds": 4' in lead.said()


def test_the_lead_is_told_where_the_model_is_when_nobody_hands_it_over(kits):
    folder, shared, _ = kits
    study, out = Study.load_shared(folder / "lead/study.toml"), folder / "run"
    out.mkdir()
    begin(out, study.text, Settings(3, rounds=7))
    finish_unread(out, Ended((Record(7, math.inf, 0.1, 10, 10, CENTERS),), converged=True))
    words = [*VEDUTE, "federation", "run", shared, "--kit", folder / "lead", "--out", out, "--resume"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "3 centers, converged after 1 rounds" in told
    assert "it is with each center, in its own folder" in told
    done = json.loads(subprocess.run([*words, "--json"], capture_output=True, text=True, check=True).stdout)
    assert done["model"] == "at the centers"
    assert done["centers"] == list(CENTERS)
