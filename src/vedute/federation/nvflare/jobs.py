"""A job of NVFlare: as the lead submits it, and what a center, and the server, accept as one.

It is a signed pair of small JSON files that name our installed adapters and carry no code. NVFlare calls code of a job
"custom" only if it lies in a folder of that name. But its settings are searched by name in all folders, those of jobs
included, and some settings name files to import. So anything but the two files is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nvflare.apis.app_validation import AppValidator
from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE
from nvflare.lighter.utils import verify_folder_signature_and_get_signers

from vedute.federation.nvflare.local_files import LEAD, OURS
from vedute.federation.nvflare.names import TASK
from vedute.run.fitted_model import describe_settings
from vedute.run.settings import Settings

REQUEST_SECONDS = 0.1  # how often a center asks for its next task: NVFlare's 2 seconds would be most of a round


def write_job(folder: Path, run: str, settings: Settings, centers: Sequence[str]) -> Path:
    """The folder to submit: the rounds of ``run`` that are left, with these centers and no others."""
    controller = {
        "id": "fit",
        "path": f"{OURS}controller.FitController",
        "args": {"run": run, "settings": describe_settings(settings), "centers": sorted(centers)},
    }
    executor = {"path": f"{OURS}executor.SiteExecutor", "args": {}}
    filters: dict[str, Any] = {"task_data_filters": [], "task_result_filters": [], "components": []}
    files: dict[str, dict[str, Any]] = {
        "meta.json": {
            "name": "vedute",
            "resource_spec": {},
            "deploy_map": {"app": ["server", *sorted(centers)]},
            "min_clients": len(centers),
            "mandatory_clients": sorted(centers),
        },
        "app/config/config_fed_server.json": {
            "format_version": 2,
            "server": {"task_request_interval": REQUEST_SECONDS},
            "workflows": [controller],
            **filters,
        },
        "app/config/config_fed_client.json": {
            "format_version": 2,
            "default_task_fetch_interval": REQUEST_SECONDS,
            "executors": [{"tasks": [TASK], "executor": executor}],
            **filters,
        },
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1))
    return folder


CONFIGS = ("config/config_fed_client.json", "config/config_fed_server.json")
SEALS = (NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE)
MOST_BYTES = 2**20
CLASS_KEYS = ("path", "class_path", "name")  # by which NVFlare is told what to build


class JobValidator(AppValidator):  # type: ignore[misc, unused-ignore]
    """Stands in ``resources.json`` of every kit; NVFlare asks it before it deploys an app."""

    def validate(self, app_folder: str) -> tuple[str, dict[str, Any]]:
        """Why the app is refused ("" if it is not), and nothing else to say about it."""
        folder = Path(app_folder)
        return refusal(folder) or unsigned(folder, Path("startup/rootCA.pem")), {}


def refusal(folder: Path) -> str:
    """Why the content of an app is not one of our jobs, or ""."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_dir() or path.is_file()):
            return f"{name!r} is not a plain file"
        if path.is_dir() and name != "config":
            return f"a job may hold no folder {name!r}"
        if path.is_file() and name not in CONFIGS and path.name not in SEALS:
            return f"a job may hold no file {name!r}"
        if path.is_file() and path.stat().st_size > MOST_BYTES:
            return f"{name!r} is larger than a job's file"
    for config in CONFIGS:
        if not (folder / config).is_file():
            continue
        try:
            content = json.loads((folder / config).read_bytes())
        except ValueError:
            return f"{config!r} is not JSON"
        for found in classes(content):
            if not (isinstance(found, str) and found.startswith(OURS)):
                return f"{config!r} names {found!r}, which is not one of vedute's adapters"
    return ""


def classes(content: Any) -> Iterator[Any]:
    """Everything in a job's settings that NVFlare could take for the name of a class."""
    if isinstance(content, dict):
        for key, value in content.items():
            if key in CLASS_KEYS:
                yield value
            yield from classes(value)
    elif isinstance(content, list):
        for value in content:
            yield from classes(value)


def unsigned(folder: Path, root: Path) -> str:
    """Why nobody who may submit has signed the job, or ""."""
    verified, signers = verify_folder_signature_and_get_signers(str(folder), str(root))
    if not verified or not signers:
        return "the job's signature is missing or wrong"
    strangers = [name for name, _, role in signers if (name, role) != (LEAD, "lead")]
    return f"the job is signed by {strangers[0]!r}, who may not submit" if strangers else ""
