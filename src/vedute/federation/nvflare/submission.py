"""A job as the lead submits it: three small JSON files that name our installed adapters and carry no code."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vedute.federation.nvflare.names import TASK
from vedute.run.fitted_model import describe_settings
from vedute.run.settings import Settings

REQUEST_SECONDS = 0.1  # how often a center asks for its next task: NVFlare's 2 seconds would be most of a round
ADAPTERS = "vedute.federation.nvflare"


def write_job(folder: Path, run: str, settings: Settings, centers: Sequence[str]) -> Path:
    """The folder to submit: the rounds of ``run`` that are left, with these centers and no others."""
    controller = {
        "id": "fit",
        "path": f"{ADAPTERS}.controller.FitController",
        "args": {"run": run, "settings": describe_settings(settings), "centers": sorted(centers)},
    }
    executor = {"path": f"{ADAPTERS}.executor.SiteExecutor", "args": {}}
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
