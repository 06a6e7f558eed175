# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Why a deployment cannot work with a flag, and what to do instead: what the engines have in common of it. Data."""

from __future__ import annotations

TLS = (
    "the endpoint would speak TLS, and is asked over plain HTTP before a deployment is called good",
    "take it out, and put a proxy that has the certificate before the endpoint",
)
GRPC = ("the endpoint would speak gRPC, and is asked over HTTP before a deployment is called good", "take it out")
LAYOUT = (
    "it asks for other ranks than one on each node, which share each layer",
    "take it out; every host of group 'sparks' makes a rank",
)
NO_CHAT = (
    "the endpoint would take no chat completion, which a deployment is called good by",
    "take it out",
)
ENDS = ("the engine prints something, ends, and serves nothing", "take it out")
