"""Attacks on real processes: who holds no certificate of the federation, who claims to be another, who brings code.

Two federations: one whose server is as we ship it, and one whose server allows everything, as an attacker who took it
over would have it. What the second one's center refuses, it refuses alone.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flare_lab import give_credentials, lab_kits, log, outcome, running, session, wait_for
from vedute.data.files import write_private
from vedute.data.study import Study
from vedute.federation.nvflare.authority import make_authority
from vedute.federation.nvflare.jobs import write_job
from vedute.federation.nvflare.kits import open_kit
from vedute.federation.nvflare.local_files import server_resources
from vedute.run.settings import Settings

MEMBER = "member@vedute.local"


@dataclass(frozen=True)
class Federation:
    folder: Path
    kits: dict[str, Path]

    @property
    def authority(self) -> Path:
        return self.folder / "kits/authority"

    def person(self, name: str, role: str) -> Path:
        """The kit of somebody with another role, as the authority might have issued it."""
        kit = shutil.copytree(self.kits["lead"], self.folder / role)
        give_credentials(kit, self.authority, name, role)
        admin = json.loads((kit / "startup/fed_admin.json").read_text())
        admin["admin"]["username"] = name
        (kit / "startup/fed_admin.json").write_text(json.dumps(admin))
        return kit


def prepare(folder: Path, permissive: bool) -> Federation:
    folder.mkdir()
    kits = lab_kits(folder)
    settings = Study.load_shared(kits["server"] / "study.toml").federation
    resources = server_resources(settings, str(kits["server"] / "storage"))
    if permissive:
        del resources["app_validator"]
        resources["class_allow_list"] = ["*"]
        everything = dict.fromkeys(("project_admin", "lead", "member"), "any")
        allowed = {"format_version": "1.0", "permissions": everything}
        (kits["server"] / "local/authorization.json").write_text(json.dumps(allowed))
    (kits["server"] / "local/resources.json").write_text(json.dumps(resources))
    return Federation(folder, kits)


@pytest.fixture(scope="module")
def federations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Federation, Federation]]:
    """A strict and a permissive one, both running; an impostor knocks at the strict one."""
    folder = tmp_path_factory.mktemp("attacks")
    strict, permissive = prepare(folder / "strict", False), prepare(folder / "permissive", True)
    impostor = shutil.copytree(strict.kits["paris"], folder / "strict/impostor")
    told = json.loads((impostor / "kit.json").read_text())
    (impostor / "kit.json").write_text(json.dumps({**told, "name": "nice"}))
    with running(
        open_kit(strict.kits["server"], "server"),
        open_kit(permissive.kits["server"], "server"),
        open_kit(permissive.kits["nice"], "center"),
        open_kit(impostor, "center"),
    ):
        wait_for(lambda: "Server started" in log(strict.kits["server"]))
        wait_for(lambda: "New client nice" in log(permissive.kits["server"]))
        yield strict, permissive


@pytest.fixture(scope="module")
def taken_over(federations: tuple[Federation, Federation]) -> Iterator[Any]:
    """The lead's session at the permissive server."""
    with session(federations[1].kits["lead"]) as opened:
        yield opened


def honest_job(folder: Path) -> Path:
    return write_job(folder, "run", Settings(1), ["nice"])


def hello(port: int, kit: Path) -> bytes:
    """The first bytes of a server that finds our certificate good."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(kit / "startup/rootCA.pem")
    if (kit / "startup/client.crt").exists():
        context.load_cert_chain(kit / "startup/client.crt", kit / "startup/client.key")
    context.set_alpn_protocols(["h2"])
    with (
        socket.create_connection(("localhost", port), 20) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        return secure.recv(9)


def refused(port: int, kit: Path) -> bool:
    try:
        return hello(port, kit) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def test_a_foreign_certificate_is_refused_before_a_word_is_said(federations, tmp_path):
    strict, _ = federations
    nice = strict.kits["nice"]
    port = open_kit(nice, "center").file.port
    assert len(hello(port, nice)) == 9
    foreign = shutil.copytree(nice, tmp_path / "foreign")
    own = make_authority("vedute", 2).issue("nice")
    (foreign / "startup/client.crt").write_bytes(own.certificate)
    write_private(foreign / "startup/client.key", own.key)
    assert refused(port, foreign)
    (foreign / "startup/client.crt").unlink()
    assert refused(port, foreign)


def test_a_center_cannot_claim_to_be_another(federations):
    strict, _ = federations
    server = strict.kits["server"]
    wait_for(lambda: "authenticated as 'paris' but claimed endpoint 'nice'" in log(server))
    assert "New client" not in log(server)
    assert "Successfully registered" not in log(strict.folder / "impostor")


def test_a_member_cannot_submit(federations, tmp_path):
    from nvflare.fuel.flare_api.api_spec import AuthorizationError

    strict, _ = federations
    with session(strict.person(MEMBER, "member"), MEMBER) as opened:
        opened.get_system_info()
        with pytest.raises(AuthorizationError, match="not authorized for 'submit_job'"):
            opened.submit_job(str(honest_job(tmp_path / "job")))


def test_a_center_refuses_code_whatever_the_server_allows(taken_over, tmp_path):
    job = honest_job(tmp_path / "job")
    (job / "app/custom").mkdir()
    (job / "app/custom/evil.py").write_text("raise SystemExit\n")
    said = outcome(taken_over, job)
    assert "server: OK" in said
    assert "a job may hold no folder 'custom'" in said


def test_a_center_refuses_settings_that_would_load_code(taken_over, tmp_path):
    job = honest_job(tmp_path / "job")
    (job / "app/config/comm_config.json").write_text('{"comm_driver_path": "app/config"}')
    assert "a job may hold no file 'config/comm_config.json'" in outcome(taken_over, job)


@pytest.mark.parametrize("found", ["subprocess.Popen", "nvflare.app_common.np.np_trainer.NPTrainer", "vedute.fit"])
def test_a_center_refuses_classes_that_are_not_our_adapters(taken_over, tmp_path, found):
    job = honest_job(tmp_path / "job")
    config = job / "app/config/config_fed_client.json"
    content = json.loads(config.read_text())
    content["executors"][0]["executor"]["path"] = found
    config.write_text(json.dumps(content))
    assert f"names '{found}', which is not one of vedute's adapters" in outcome(taken_over, job)


def test_a_center_refuses_a_scope_without_its_filter(taken_over, tmp_path):
    job = honest_job(tmp_path / "job")
    meta = json.loads((job / "meta.json").read_text())
    (job / "meta.json").write_text(json.dumps({**meta, "scope": "public"}))
    assert "privacy scope 'public' is not allowed" in outcome(taken_over, job)


@pytest.mark.parametrize(("name", "role"), [(MEMBER, "member"), ("boss@vedute.local", "project_admin")])
def test_a_center_refuses_jobs_that_the_lead_did_not_sign(federations, tmp_path, name, role):
    _, permissive = federations
    with session(permissive.person(name, role), name) as opened:
        said = outcome(opened, honest_job(tmp_path / "job"))
    assert f"nice: user '{name}' is not authorized for 'submit_job'" in said


@pytest.mark.parametrize("order", ["cat nice log.txt", "ls nice startup", "sys_info client nice", "report_env nice"])
def test_a_center_does_not_answer_what_no_run_asks(taken_over, order):
    answer = str(taken_over.api.do_command(order))
    assert "invalid_request" in answer
