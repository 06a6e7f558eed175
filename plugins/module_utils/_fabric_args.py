# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the options of the module fabric_test, as data.
from __future__ import annotations

from typing import Any

#: A peer. Only its tokens are secret: host names and addresses have to come back in the results.
PEER: dict[str, Any] = {
    "host": {"type": "str", "required": True},
    "rails": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {"number": {"type": "int", "required": True}, "address": {"type": "str", "required": True}},
    },
    "listeners": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "number": {"type": "int", "required": True},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "token": {"type": "str", "required": True, "no_log": True},
            "session": {"type": "str"},
            "hca": {"type": "str"},
        },
    },
    "tools": {"type": "dict", "default": {}},
}

SPEC: dict[str, Any] = {
    "state": {"type": "str", "choices": ["reached", "listening", "measured", "closed"], "default": "reached"},
    "rails": {
        "type": "list",
        "elements": "dict",
        "options": {
            "number": {"type": "int", "required": True},
            "netdev": {"type": "str", "required": True},
            "address": {"type": "str", "required": True},
            "hca": {"type": "str"},
            "gid_index": {"type": "int"},
        },
    },
    "peers": {"type": "list", "elements": "dict", "default": [], "options": PEER},
    "rdma": {"type": "bool", "default": True},
    "seconds": {"type": "float", "default": 10},
    "port": {"type": "int", "default": 45991},
    "idle_timeout": {"type": "float", "default": 60},
    "sessions": {"type": "list", "elements": "str", "default": []},
}
