# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: what image_sync and model_sync do alike.
from __future__ import annotations

import grp
import os
import pwd
import socket
import time
from collections.abc import Callable
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils._disk import nearest_existing
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress, Work, run, start
from ansible_collections.gb10.serving.plugins.module_utils._offer import withdraw

_SPEC: dict[str, Any] = {
    "state": {"type": "str", "choices": ["present", "offered", "withdrawn"], "default": "present"},
    "sources": {
        "type": "list",
        "elements": "dict",
        "options": {
            "host": {"type": "str"},
            "addresses": {"type": "list", "elements": "str", "required": True},
            "port": {"type": "int", "required": True},
            "token": {"type": "str", "required": True, "no_log": True},
        },
    },
    "addresses": {"type": "list", "elements": "str"},
    "following": {"type": "bool", "default": False},
    "port": {"type": "int", "default": 0},
    "allowed": {"type": "list", "elements": "str"},
    "session": {"type": "str"},
    "idle_timeout": {"type": "int"},
    "wait": {"type": "bool", "default": True},
    "detach": {"type": "bool", "default": False},
}

#: Does one state; the result, with "error" when a copy failed.
State = Callable[[AnsibleModule], dict[str, Any]]


def run_module(own: dict[str, Any], subject: str, present_needs: list[str], present: State, offered: State) -> None:
    """main() of both modules. subject is the option that names what is copied."""
    module = AnsibleModule(
        argument_spec={**own, **_SPEC},
        required_if=[
            ("state", "present", present_needs),
            ("state", "offered", [subject, "addresses", "allowed"]),
            ("state", "withdrawn", ["session"]),
        ],
        supports_check_mode=True,
    )
    host = socket.gethostname()
    try:
        if module.params["state"] == "withdrawn":
            result: dict[str, Any] = {"changed": withdraw(module.params["session"], check=module.check_mode)}
        else:
            result = offered(module) if module.params["state"] == "offered" else present(module)
    except JobError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        where = error.filename or module.params[subject]
        module.fail_json(msg=f"{where} on {host}: {error.strerror or error}. May this user read and write there?")
    if "error" in result:
        module.fail_json(msg=f"{module.params[subject]} on {host}: {result.pop('error')}", **result)
    module.exit_json(**result)


def carry_out(module: AnsibleModule, work: Work, idle_timeout: float) -> dict[str, Any]:
    """Runs the work here, or detached when the action plugin asked for that: then the result names the job."""

    def timed(progress: Progress) -> dict[str, Any]:
        begun = time.monotonic()
        result = work(progress)
        return dict(result, seconds=round(time.monotonic() - begun, 3))

    if module.params["detach"]:
        return {"changed": True, "job": start(timed, Progress(), idle_timeout)}
    return run(timed, Progress(), idle_timeout)


def owner_setter(owner: str | None, group: str | None, path: str) -> Callable[[str], None]:
    """A function that gives a path to its owner: the named one, or for root that of the nearest folder that exists."""
    try:
        uid = -1 if owner is None else int(owner) if owner.isdigit() else pwd.getpwnam(owner).pw_uid
        gid = -1 if group is None else int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
    except KeyError as error:
        raise JobError(
            f"no such owner or group on {socket.gethostname()}: {error}. Create it first or name another."
        ) from error
    if os.geteuid() == 0:
        near = os.stat(nearest_existing(path))
        uid, gid = (near.st_uid if uid < 0 else uid), (near.st_gid if gid < 0 else gid)

    def own(target: str) -> None:
        if uid >= 0 or gid >= 0:
            os.chown(target, uid, gid, follow_symlinks=False)

    return own
