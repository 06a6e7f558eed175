# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Runs the module gb10_facts and turns the failures of a first contact into one clear message each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

MODULE = "gb10.serving.gb10_facts"
MINIMUM_PYTHON = "3.10"
SSH_HINTS = (
    (
        r"could not resolve|name or service not known|nodename nor servname|temporary failure in name resolution",
        "The name does not resolve: correct ansible_host.",
    ),
    (
        r"host key verification failed|remote host identification has changed",
        "The host key is not the known one: if the node was set up again, run 'ssh-keygen -R {address}' first.",
    ),
    (
        r"permission denied|authenticat.* fail|fail.* authenticat|too many authentication failures",
        "The login was refused: correct ansible_user, or put your key on the node with 'ssh-copy-id {port}{login}'.",
    ),
    (
        r"timed out|timeout|no route to host|network is unreachable|host is down",
        "Nothing answers there: check that the node is on and that this is its management address.",
    ),
    (
        r"connection refused",
        "The node answers but not its ssh server: start it there with 'sudo systemctl enable --now ssh'.",
    ),
)
NO_PYTHON = re.compile(
    r"module interpreter .* was not found"
    r"|python[0-9.]*['\"]?:? (?:not found|command not found|No such file or directory)"
    r"|No such file or directory: ?['\"]?[^'\"\n]*python|No python interpreters found"
    r"|\bbad interpreter\b|env: .?python[0-9.]*.?: No such file",
    re.IGNORECASE,
)
OLD_PYTHON = re.compile(
    r"requires (?:a minimum of )?Python (?:version )?[0-9.]+|is too old\. Expected Python|SyntaxError"
    r"|future feature annotations is not defined|No module named ansible\.module_utils",
    re.IGNORECASE,
)
BECOME_PASSWORD = re.compile(
    r"(?:missing|incorrect) (?:sudo|su|doas|become|\w+) password|a password is required|sorry, try again"
    r"|timeout \(\d+s\) waiting for privilege escalation prompt|interactive authentication is required",
    re.IGNORECASE,
)
NOT_ALLOWED = re.compile(r"is not in the sudoers file|is not allowed to (?:execute|run sudo)", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    """The node as Ansible sees it."""

    host: str
    address: str
    user: str | None = None
    port: int | None = None
    inventory: str | None = None
    interpreter: str | None = None

    @property
    def name(self) -> str:
        return self.host if self.address == self.host else f"{self.host} ({self.address})"

    @property
    def login(self) -> str:
        return f"{self.user}@{self.address}" if self.user else self.address

    @property
    def port_option(self) -> str:
        return f"-p {self.port} " if self.port and self.port != 22 else ""

    @property
    def inventory_name(self) -> str:
        return self.inventory or "the inventory"


def one_line(text: str, length: int = 300) -> str:
    """The text as one line; a long one loses its middle."""
    text = " ".join(text.split()).strip().rstrip(".")
    return text if len(text) <= length else text[: length // 3] + " ... " + text[-(length - length // 3) :]


def unreachable_message(target: Target, seen: str) -> str:
    """What to say when Ansible cannot log in."""
    hint = next((text for pattern, text in SSH_HINTS if re.search(pattern, seen, re.IGNORECASE)), "")
    hint = hint.format(address=target.address, login=target.login, port=target.port_option)
    return (
        f"Cannot reach {target.name}. Seen: {one_line(seen) or 'no answer'}. Expected: Ansible can log in over ssh. "
        f"{hint + ' ' if hint else ''}Next: try 'ssh {target.port_option}{target.login}' from this machine; the "
        f"address is ansible_host of {target.host} in {target.inventory_name}."
    )


def classify(seen: str) -> str | None:
    """become-password, become-refused, no-python or old-python; None for every other failure."""
    if BECOME_PASSWORD.search(seen):
        return "become-password"
    if NOT_ALLOWED.search(seen):
        return "become-refused"
    if NO_PYTHON.search(seen):
        return "no-python"
    return "old-python" if OLD_PYTHON.search(seen) else None


def failure_message(kind: str, target: Target, seen: str) -> str:
    """What to say about a failure of this kind."""
    line = one_line(re.sub(r"\s*Expected Python.*$", "", seen, flags=re.DOTALL))
    user = target.user or "the login user"
    if kind == "become-password":
        return (
            f"No sudo on {target.name}. Seen: {line}. Expected: sudo without a password, or its password given. Next: "
            f"run the playbook with --ask-become-pass (-K), or allow {user} passwordless sudo on {target.host}."
        )
    if kind == "become-refused":
        return (
            f"No sudo on {target.name}. Seen: {line}. Expected: {user} may run sudo. Next: on {target.host}, as an "
            f"administrator: sudo usermod -aG sudo {target.user or 'USER'}."
        )
    if kind == "no-python":
        problem, choice = f"No Python on {target.name}", "a Python that is there"
    else:
        tried = f" ({target.interpreter})" if target.interpreter else ""
        problem, choice = f"Python on {target.name} is too old{tried}", "a newer one"
    return (
        f"{problem}. Seen: {line}. Expected: Python {MINIMUM_PYTHON} or newer. Next: on {target.host} run "
        f"'sudo apt install python3', or set ansible_python_interpreter of {target.host} in {target.inventory_name} to "
        f"{choice}."
    )


def seen_in(result: Mapping[str, Any]) -> str:
    """The words of a failed result that say why: stderr first, for it is the node's own."""
    parts = [str(result.get(key) or "") for key in ("module_stderr", "module_stdout", "msg", "exception")]
    return "\n".join(part for part in parts if part.strip())


def evidence(text: str) -> str:
    """The line that shows the failure, out of all that was printed."""
    for pattern in (BECOME_PASSWORD, NOT_ALLOWED, NO_PYTHON, OLD_PYTHON):
        for line in text.splitlines():
            if pattern.search(line):
                return line
    return text


def improve(result: dict[str, Any], target: Target) -> dict[str, Any]:
    """A failed result with one clear message when its kind is known; any other result unchanged."""
    if not result.get("failed"):
        return result
    # an answer that Ansible could read is the module's own: only its message counts
    own = "module_stderr" not in result and "module_stdout" not in result
    seen = str(result.get("msg") or "") if own else seen_in(result)
    kind = classify(seen)
    if kind is None:
        return result
    kept: dict[str, Any] = {
        key: result[key]
        for key in ("rc", "module_stderr", "module_stdout", "warnings", "deprecations")
        if key in result
    }
    return {
        "failed": True,
        "changed": False,
        "msg": failure_message(kind, target, evidence(seen)),
        "failure": kind,
        **kept,
    }


class ActionModule(ActionBase):
    """The action of the same name as the module."""

    _supports_check_mode = True
    _supports_async = False
    _supports_diff = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        variables = task_vars or {}
        super().run(tmp, variables)
        target = self._target(variables)
        try:
            result = self._execute_module(module_name=MODULE, module_args=dict(self._task.args), task_vars=variables)
        except AnsibleConnectionFailure as error:
            # ansible-core puts these words before the message of that class, again when it is raised anew
            seen = str(error).removeprefix("Failed to authenticate: ")
            kind = classify(seen) if BECOME_PASSWORD.search(seen) else None
            if kind:
                return {"failed": True, "changed": False, "failure": kind, "msg": failure_message(kind, target, seen)}
            raise type(error)(unreachable_message(target, seen)) from None
        except AnsibleError as error:
            kind = classify(str(error))
            if kind is None:
                raise
            return {
                "failed": True,
                "changed": False,
                "failure": kind,
                "msg": failure_message(kind, target, evidence(str(error))),
            }
        return improve(dict(result), replace(target, interpreter=self._interpreter()))

    def _target(self, variables: Mapping[str, Any]) -> Target:
        host = str(self._task.delegate_to or variables.get("inventory_hostname") or "the node")
        context = self._play_context
        port = self._option("port") or context.port
        inventory = variables.get("inventory_file")
        return Target(
            host=host,
            address=str(self._option("host") or context.remote_addr or host),
            user=str(self._option("remote_user") or context.remote_user or "") or None,
            port=int(port) if str(port or "").isdigit() else None,
            inventory=str(inventory) if inventory and not self._task.delegate_to else None,
        )

    def _option(self, name: str) -> Any:
        """A connection option; None for connections that have no such option."""
        try:
            return self._connection.get_option(name)
        except (AnsibleError, KeyError, AttributeError):
            return None

    def _interpreter(self) -> str | None:
        # known since ansible-core 2.13, after the module was built
        used = getattr(self, "_used_interpreter", None)
        return str(used).lstrip("#!").strip() if used else None
