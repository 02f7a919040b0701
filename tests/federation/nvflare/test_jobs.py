"""What a center accepts as a job, and what its settings allow whom: judged without a server."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.apis.workspace import Workspace
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
from nvflare.fuel.sec.authz import AuthzContext, Person
from nvflare.lighter.utils import load_private_key_file, sign_folders
from nvflare.private.fed.app.fl_conf import create_privacy_manager
from nvflare.security.security import COMMAND_CATEGORIES, CommandCategory, FLAuthorizer

from flare_lab import give_credentials, lab_kits
from vedute.federation.nvflare.components import Presence, ReleaseOnly, quoted
from vedute.federation.nvflare.jobs import refusal, unsigned, write_job
from vedute.federation.nvflare.local_files import LEAD, authorization
from vedute.federation.nvflare.names import CONNECTED, ENDED, LOST
from vedute.federation.nvflare.processes import environment
from vedute.run.settings import Settings


@pytest.fixture(scope="module")
def kits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return lab_kits(tmp_path_factory.mktemp("jobs"))


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return write_job(tmp_path / "job", "run", Settings(2, iterations={"nice": 3}), ["nice"]) / "app"


def sign(app: Path, kit: Path) -> None:
    sign_folders(str(app), load_private_key_file(str(kit / "startup/client.key")), str(kit / "startup/client.crt"))


def test_our_own_job_is_accepted(app, kits):
    assert "signature is missing" in unsigned(app, kits["nice"] / "startup/rootCA.pem")
    sign(app, kits["lead"])
    assert refusal(app) == ""
    assert unsigned(app, kits["nice"] / "startup/rootCA.pem") == ""


@pytest.mark.parametrize("name", ["custom/a.py", "config/a.py", "config/comm_config.json", "resources.json", ".pth"])
def test_a_job_holds_nothing_else(app, name):
    (app / name).parent.mkdir(exist_ok=True)
    (app / name).write_text("{}")
    assert "a job may hold no" in refusal(app)


def test_a_job_holds_no_links_and_nothing_large(app):
    (app / "config/config_fed_client.json").unlink()
    (app / "config/config_fed_client.json").symlink_to("/etc/passwd")
    assert "is not a plain file" in refusal(app)
    (app / "config/config_fed_client.json").unlink()
    (app / "config/config_fed_client.json").write_text(" " * 2**21 + "{}")
    assert "is larger than" in refusal(app)
    (app / "config/config_fed_client.json").write_text("{")
    assert "is not JSON" in refusal(app)


@pytest.mark.parametrize("where", ["client", "server"])
@pytest.mark.parametrize("key", ["path", "class_path", "name"])
@pytest.mark.parametrize(
    "found", ["os.system", "vedute.federation.nvflare", "vedute.federation.nvflare_evil.X", 3, None]
)
def test_classes_are_found_at_any_depth(app, where, key, found):
    config = app / f"config/config_fed_{where}.json"
    content = json.loads(config.read_text())
    content["components"] = [{"id": "x", "args": {"deep": [{"args": {key: found}}]}}]
    config.write_text(json.dumps(content))
    assert f"names {found!r}, which is not one of vedute's adapters" in refusal(app)


def test_a_job_changed_after_it_was_signed_is_refused(app, kits):
    sign(app, kits["lead"])
    config = app / "config/config_fed_client.json"
    config.write_text(config.read_text().replace("0.1", "0.2"))
    assert "signature is missing or wrong" in unsigned(app, kits["nice"] / "startup/rootCA.pem")


@pytest.mark.parametrize(("name", "role"), [("nice", None), ("x@vedute.local", "member"), ("x@vedute.local", "lead")])
def test_only_the_lead_signs(app, kits, tmp_path, name, role):
    stranger = tmp_path / "kit"
    (stranger / "startup").mkdir(parents=True)
    give_credentials(stranger, kits["lead"].parent / "authority", name, role)
    sign(app, stranger)
    assert f"signed by '{name}', who may not submit" in unsigned(app, kits["nice"] / "startup/rootCA.pem")


def test_the_allow_list_stands_behind_the_validator(kits):
    judge = ComponentPathAuthorizer()
    workspace = Workspace(str(kits["nice"]), "nice")
    judge.authorize_component_config({"path": "vedute.federation.nvflare.executor.SiteExecutor"}, workspace=workspace)
    for path in ("subprocess.Popen", "vedute.run.run_folder.Run", "nvflare.app_common.np.np_trainer.NPTrainer"):
        with pytest.raises(UnsafeComponentError, match="not in allow_list"):
            judge.authorize_component_config({"path": path}, workspace=workspace)


def allowed(role: str, right: str, submitter: str = LEAD) -> bool:
    user = Person(LEAD if role == "lead" else "somebody@vedute.local", "vedute", role)
    context = AuthzContext(right, user, Person(submitter, "vedute", "lead"))
    return bool(FLAuthorizer("vedute", authorization()).authorize(context)[0])


def test_who_may_do_what():
    viewing = {right for right, kind in COMMAND_CATEGORIES.items() if kind == CommandCategory.VIEW}
    own = {right for right, kind in COMMAND_CATEGORIES.items() if kind in (CommandCategory.MANAGE_JOB, "download_job")}
    rights = {*COMMAND_CATEGORIES, "submit_job", "clone_job", "byoc", "server-predeployed-flwr"}
    can = {role: {right for right in rights if allowed(role, right)} for role in ("lead", "member", "org_admin")}
    assert can["lead"] == viewing | own | {"submit_job"}
    assert can["member"] == viewing
    assert can["org_admin"] == set()
    assert not {right for right in rights if allowed("project_admin", right) or allowed("anything else", right)}
    assert not {right for right in own if allowed("lead", right, submitter="other@vedute.local")}


def test_no_job_leaves_without_our_filter(kits):
    manager = create_privacy_manager(Workspace(str(kits["nice"]), "nice"), names_only=False)
    assert manager.is_policy_defined()
    for scope in ("", None, "vedute"):
        (found,) = manager.get_scope(scope).task_result_filters["out"]
        assert isinstance(found, ReleaseOnly)
    assert manager.get_scope("public") is None


def test_logs_and_settings_stay_at_home(kits):
    resources = json.loads((kits["nice"] / "local/resources.json").read_text())
    assert resources["allow_log_streaming"] is False
    assert resources["client"]["site_config"] == {}
    for kit in kits.values():
        text = (kit / "local/resources.json").read_text()
        assert "log_streamer" not in text.lower()
        assert "log_receiver" not in text.lower()


def test_the_environment_cannot_change_the_kit():
    given = {"PATH": "/bin", "https_proxy": "http://p", "HTTPS_PROXY": "x", "OMP_NUM_THREADS": "1", "LC_ALL": "C"}
    foreign = {"NVFLARE_ANYTHING": "1", "NVFL_JOB_STORE_ROOT": "/tmp", "PYTHONPATH": "/evil", "FL_LOG_LEVEL": "DEBUG"}
    found = environment({**given, **foreign}, "center")
    assert {name: found[name] for name in given} == given
    assert not set(foreign) & set(found)
    assert found["NVFLARE_SECURE_LOGGING"] == "True"


def test_a_path_with_a_space_stays_one_word():
    given = {"module": ("-m", "x.y"), "root": ("-r", "/a lab/$x 'y'"), JobProcessArgs.OPTIONS: ("--set", " a=1  b=2")}
    words = shlex.split(quoted(given, ["module", "absent", "root", JobProcessArgs.OPTIONS]), True)
    assert words == [sys.executable, "-m", "x.y", "-r", "/a lab/$x 'y'", "--set", "a=1", "b=2"]


def test_presence_tells_each_change_once(caplog):
    caplog.set_level("INFO", "vedute.presence")
    told = Presence()
    before, after = "_before_client_heartbeat", "_after_client_heartbeat"
    for event in (
        "_after_client_register",
        before,
        after,
        before,
        after,
        before,
        before,
        before,
        after,
        "_job_completed",
    ):
        told.handle_event(event, None)
    assert [record.message for record in caplog.records] == [
        CONNECTED, LOST, CONNECTED, ENDED,
    ]  # fmt: skip
