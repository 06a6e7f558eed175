# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The failures of a first contact, each with one message that says what to do."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleAuthenticationFailure, AnsibleConnectionFailure, AnsibleError

from ansible_collections.gb10.serving.plugins.action import gb10_facts as action

TARGET = action.Target("spark-b", "10.0.0.7", "spark", 2222, "inventories/sparks/hosts.yml")


def stub(outcome: Any) -> Any:
    """The action with the parts of Ansible around it replaced; _execute_module returns or raises the outcome."""
    module = action.ActionModule.__new__(action.ActionModule)

    def execute(**_kwargs: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    options = {"host": "10.0.0.7", "port": 22, "remote_user": "spark"}
    module._task = SimpleNamespace(args={}, delegate_to=None, async_val=0, check_mode=False, diff=False, no_log=False)
    module._connection = SimpleNamespace(get_option=options.get, _shell=SimpleNamespace(tmpdir=None))
    module._play_context = SimpleNamespace(remote_addr="10.0.0.7", port=None, remote_user=None)
    module._execute_module = execute
    module._early_needs_tmp_path = lambda: False
    return module


VARIABLES = {"inventory_hostname": "spark-b", "inventory_file": "inventories/sparks/hosts.yml"}


@pytest.mark.parametrize(
    ("seen", "hint"),
    [
        ("ssh: connect to host 10.0.0.7 port 22: Connection timed out", "Nothing answers there"),
        ("ssh: connect to host 10.0.0.7 port 22: Connection refused", "not its ssh server"),
        ("ssh: Could not resolve hostname spark-b: Name or service not known", "does not resolve"),
        ("spark@10.0.0.7: Permission denied (publickey,password).", "ssh-copy-id -p 2222 spark@10.0.0.7"),
        ("Host key verification failed.", "ssh-keygen -R 10.0.0.7"),
        ("something new", "Expected: Ansible can log in over ssh. Next"),
    ],
)
def test_unreachable_message(seen: str, hint: str) -> None:
    message = action.unreachable_message(TARGET, seen)
    for word in (
        "spark-b (10.0.0.7)",
        seen.rstrip("."),
        hint,
        "ssh -p 2222 spark@10.0.0.7",
        "ansible_host of spark-b in inv",
    ):
        assert word in message


@pytest.mark.parametrize("kind", [AnsibleConnectionFailure, AnsibleAuthenticationFailure])
def test_unreachable_stays_unreachable(kind: type[AnsibleConnectionFailure]) -> None:
    with pytest.raises(AnsibleConnectionFailure) as caught:
        stub(kind("Connection timed out")).run(task_vars=dict(VARIABLES))
    assert type(caught.value) is kind
    assert "Cannot reach spark-b (10.0.0.7). Seen: Connection timed out. Expected:" in str(caught.value)
    # newer ansible-core adds the words of a cause to the message
    assert caught.value.__cause__ is None


FAILURES: list[tuple[dict[str, Any], str, str]] = [
    (
        {
            "module_stderr": "/bin/sh: 1: /usr/bin/python3: not found\n",
            "module_stdout": "",
            "rc": 127,
            "msg": "The module failed to execute correctly, you probably need to set the interpreter.",
        },
        "no-python",
        "sudo apt install python3",
    ),
    (
        {
            "module_stderr": "",
            "module_stdout": "bash: /opt/py/bin/python3.12: No such file or directory\r\n",
            "rc": 127,
            "msg": "The module interpreter '/opt/py/bin/python3.12' was not found.",
        },
        "no-python",
        "ansible_python_interpreter of spark-b",
    ),
    (
        {
            "module_stderr": "env: 'python3': No such file or directory",
            "module_stdout": "",
            "rc": 127,
            "msg": "MODULE FAILURE",
        },
        "no-python",
        "sudo apt install python3",
    ),
    (
        {
            "module_stderr": '  File "<stdin>", line 3\nSyntaxError: future feature annotations is not defined\n',
            "module_stdout": "",
            "rc": 1,
            "msg": "MODULE FAILURE",
        },
        "old-python",
        "SyntaxError: future feature",
    ),
    ({"msg": "ansible-core requires a minimum of Python version 3.9. Current version: 3.8.10"}, "old-python", "3.8.10"),
    ({"msg": "Ansible requires Python 3.9 or newer on the target. Current version: 3.6.9"}, "old-python", "3.6.9"),
    ({"msg": "Python 3.9.2 at /usr/bin/python3 is too old. Expected Python 3.10 or newer."}, "old-python", "3.9.2 at"),
    (
        {"module_stderr": "sudo: a password is required\n", "module_stdout": "", "rc": 1, "msg": "MODULE FAILURE"},
        "become-password",
        "--ask-become-pass",
    ),
    (
        {
            "module_stderr": "",
            "module_stdout": "spark is not in the sudoers file.\r\n",
            "rc": 1,
            "msg": "MODULE FAILURE",
        },
        "become-refused",
        "usermod -aG sudo spark",
    ),
]


@pytest.mark.parametrize(("result", "kind", "words"), FAILURES)
def test_failures(result: dict[str, Any], kind: str, words: str) -> None:
    answer = stub({"failed": True, **result}).run(task_vars=dict(VARIABLES))
    assert (answer["failed"], answer["failure"]) == (True, kind)
    for part in ("spark-b (10.0.0.7)", "Seen: ", "Expected: ", "Next: ", words):
        assert part in answer["msg"]
    assert answer.get("rc") == result.get("rc")


@pytest.mark.parametrize("words", ["Missing sudo password", "Incorrect sudo password"])
def test_sudo_password_errors_become_a_result(words: str) -> None:
    answer = stub(AnsibleError(words)).run(task_vars=dict(VARIABLES))
    assert answer["failure"] == "become-password"
    assert words in answer["msg"]


def test_other_outcomes_are_left_alone() -> None:
    fine = {"changed": False, "ansible_facts": {"gb10": {"note": "python3: not found"}}}
    assert stub(fine).run(task_vars=dict(VARIABLES)) == fine
    bad = {"failed": True, "msg": "value of gather_subset must be one of: all"}
    assert stub(bad).run(task_vars=dict(VARIABLES)) == bad
    with pytest.raises(AnsibleError, match="strange"):
        stub(AnsibleError("strange")).run(task_vars=dict(VARIABLES))
