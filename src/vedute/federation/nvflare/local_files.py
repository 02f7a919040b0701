"""The settings of a kit that NVFlare reads: strict, and the same for every center.

NVFlare merges ``startup/*.json`` (who I am, whom I call) and ``local/*.json`` (what I allow). A job can change none of
them. Nothing here names a class of a job but by the prefix of our own adapters.
"""

from __future__ import annotations

from typing import Any

from vedute.data.study_file import FederationSettings

Json = dict[str, Any]

OURS = "vedute.federation.nvflare."
SERVER = "vedute-server"  # the server's name in its certificate; its address is another matter
LEAD = "lead@vedute.local"  # NVFlare wants names of people to look like this
MOST_MESSAGE_BYTES = 2**28  # far above any study's parameters, and far below a machine's memory


def server_startup(project: str, host: str, port: int) -> Json:
    """fed_server.json: where the server listens, and with which certificate."""
    return {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [
            {
                "name": project,
                "service": {"target": f"{host}:{port}", "scheme": "grpc"},
                "identity": SERVER,
                "admin_server": host,
                "admin_port": port,
                "ssl_private_key": "server.key",
                "ssl_cert": "server.crt",
                "ssl_root_cert": "rootCA.pem",
                "connection_security": "mtls",
            }
        ],
    }


def center_startup(project: str, host: str, port: int, center: str) -> Json:
    """fed_client.json: which server a center calls, and who it must prove to be."""
    return {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [{"name": project, "service": {"target": f"{host}:{port}", "scheme": "grpc"}, "identity": SERVER}],
        "client": {
            "ssl_private_key": "client.key",
            "ssl_cert": "client.crt",
            "ssl_root_cert": "rootCA.pem",
            "fqsn": center,
            "is_leaf": True,
            "connection_security": "mtls",
        },
    }


def lead_startup(project: str, host: str, port: int) -> Json:
    """fed_admin.json: the one person who may submit."""
    return {
        "format_version": 1,
        "admin": {
            "project_name": project,
            "username": LEAD,
            "server_identity": SERVER,
            "scheme": "grpc",
            "host": host,
            "port": port,
            "connection_security": "mtls",
            "uid_source": "user_input",
            "with_file_transfer": True,
            "upload_dir": "transfer",
            "download_dir": "transfer",
            "client_key": "client.key",
            "client_cert": "client.crt",
            "ca_cert": "rootCA.pem",
        },
    }


def authorization() -> Json:
    """authorization.json: only the lead does anything, and to its own jobs; nobody brings code or runs commands."""
    nothing = {
        "submit_job": "none", "clone_job": "none", "manage_job": "none", "download_job": "none", "view": "none",
        "operate": "none", "shell_commands": "none", "byoc": "none", "server-predeployed-flwr": "none",
    }  # fmt: skip
    lead = {"submit_job": "any", "manage_job": "n:submitter", "download_job": "n:submitter", "view": "any"}
    return {
        "format_version": "1.0",
        "permissions": {
            "project_admin": nothing,
            "org_admin": nothing,
            "lead": {**nothing, **lead},
            "member": {**nothing, "view": "any"},
        },
    }


def privacy() -> Json:
    """privacy.json of a center: whatever the job says, only a release of our own gate passes."""
    only_releases = {"path": f"{OURS}components.ReleaseOnly", "args": {}}
    return {
        "scopes": [{"name": "vedute", "properties": {}, "task_result_filters": [only_releases]}],
        "default_scope": "vedute",
    }


def center_resources() -> Json:
    """resources.json of a center: a job runs in a process of its own, without claims on GPUs, and logs stay here."""
    return {
        "format_version": 2,
        **_classes(),
        "allow_log_streaming": False,
        # an empty site_config: NVFlare would tell the server all the rest of this file otherwise
        "client": {"retry_timeout": 30, "compression": "None", "communication_timeout": 60.0, "site_config": {}},
        "components": [
            _component("resource_manager", "app_common.resource_managers.passthrough_resource_manager",
                       "PassthroughResourceManager"),
            _component("resource_consumer", "app_common.resource_consumers.passthrough_resource_consumer",
                       "PassthroughResourceConsumer"),
            {"id": "process_launcher", "path": f"{OURS}components.CenterLauncher", "args": {}},
            {"id": "presence", "path": f"{OURS}components.Presence", "args": {}},
        ],
    }  # fmt: skip


def server_resources(settings: FederationSettings, storage: str) -> Json:
    """resources.json of the server; ``storage`` is the absolute path under which it keeps jobs."""
    files = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    return {
        "format_version": 2,
        **_classes(),
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": 1000,
                "heart_beat_timeout": settings.heartbeat,
                "admin_timeout": 10.0,
                "check_engine_frequency": 0.2,  # how soon a job's process notices that its work is done
            }
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {"path": files, "args": {"root_dir": f"{storage}/snapshots", "uri_root": "/"}},
            },
        },
        "components": [
            _component("job_scheduler", "app_common.job_schedulers.job_scheduler", "DefaultJobScheduler", max_jobs=1),
            _component("job_manager", "apis.impl.job_def_manager", "SimpleJobDefManager",
                       uri_root=f"{storage}/jobs", job_store_id="job_store"),
            _component("job_store", "app_common.storages.filesystem_storage", "FilesystemStorage"),
            {"id": "process_launcher", "path": f"{OURS}components.ServerLauncher", "args": {}},
        ],
    }  # fmt: skip


def lead_resources() -> Json:
    """resources.json of the lead's side."""
    admin = {"idle_timeout": 900.0, "login_timeout": 10.0, "with_debug": False, "authenticate_msg_timeout": 10.0}
    return {"format_version": 1, "admin": admin}


def communication() -> Json:
    """comm_config.json: no connections besides the one to the server, and no message larger than we ever send."""
    return {
        "allow_adhoc_conns": False,
        "max_message_size": MOST_MESSAGE_BYTES,
        "streaming_max_blob_size": MOST_MESSAGE_BYTES,
    }


def logging() -> Json:
    """log_config.json: plain text into a few files of bounded size, and to whoever started the process."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
        "handlers": {
            "console": {"class": "logging.StreamHandler", "formatter": "plain", "stream": "ext://sys.stdout"},
            "file": {
                "class": "logging.handlers.RotatingFileHandler",
                "formatter": "plain",
                "filename": "log.txt",
                "maxBytes": 5 * 2**20,
                "backupCount": 3,
            },
        },
        "loggers": {"root": {"level": "INFO", "handlers": ["console", "file"]}},
    }


def _classes() -> Json:
    """Only our adapters may be named by a job, and only jobs of the right shape are taken at all."""
    return {
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [OURS],
        "app_validator": {"path": f"{OURS}jobs.JobValidator", "args": {}},
    }


def _component(name: str, module: str, kind: str, **args: Any) -> Json:
    return {"id": name, "path": f"nvflare.{module}.{kind}", "args": args}
