#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: model_sync
short_description: Bring a model directory from one node to others
version_added: 0.1.0
description:
  - Makes a node end with a verified model directory, fetched from a node that has it over the fabric.
  - Files come in ranges over all rails at once, into a staging directory beside the destination. Each is compared with
    its SHA-256, which the hub's metadata or the source knows; only a file that differs is fetched again. Then all are
    put in place at once. An interrupted copy goes on where it stopped.
  - A node that receives can hand on each file as soon as that is verified (O(following)), so that a chain of nodes
    takes about as long as one.
  - Files that are there and right are not sent again. Files that are not part of the model are left alone.
  - Links are followed on the source, so that the snapshot of a Hugging Face cache arrives as plain files.
  - A marker file C(.gb10-model.json) in the directory makes the next run free.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.sync
attributes:
  check_mode:
    support: full
    details:
      - With O(state=present) it says how many bytes a run would move at least. It opens no offer.
  idempotent:
    support: partial
    details:
      - With O(state=present), a directory that is complete moves nothing. Each O(state=offered) opens a new offer.
options:
  path:
    description:
      - The model directory. C(~) is the home of the user that the module runs as.
      - Needed unless O(state=withdrawn).
    type: str
  manifest:
    description:
      - What the directory shall hold, as RV(gb10.serving.model_info#module:model) gives it on the source.
      - Needed with O(state=present) and O(following). With O(state=offered) the directory is compared with it.
    type: dict
    suboptions:
      digest:
        description: Digest of the model.
        type: str
        required: true
      files:
        description: Name and size of each file, and C(sha256) where it is known.
        type: list
        elements: dict
        required: true
      files_count:
        description: How many files the model has; a list that was cut is refused.
        type: int
  streams:
    description: How many connections at once on each rail.
    type: int
    default: 2
  verify:
    description:
      - With V(full) every file that is there is read and compared with its SHA-256 as noted by an earlier copy, by the
        hub's tools or by a source. Only damaged files are fetched.
      - With V(none) a directory with a marker and files of the right size counts as right, unless the SHA-256 of a file
        is known here and differs from the manifest's. Small files are always read.
      - A directory without a marker is read once when manifest or source know every SHA-256. Else RV(verified) says no.
      - The manifest and the sources decide what a file should hold, before what this node noted.
    type: str
    choices: [none, full]
    default: none
  owner:
    description:
      - Owner of what is written.
      - Without it, when the module runs as root, the owner of the nearest directory that exists.
    type: str
  group:
    description: Group of what is written; chosen like O(owner).
    type: str
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Offer the model on the head
  gb10.serving.model_sync:
    state: offered
    path: ~/models/Qwen3.5-122B-A10B-FP8
    addresses: [192.168.200.12, 192.168.201.12]
    allowed: [192.168.200.13, 192.168.201.13]
  no_log: true
  register: offer

- name: Fetch the model on the other node
  gb10.serving.model_sync:
    path: ~/models/Qwen3.5-122B-A10B-FP8
    manifest:
      digest: "{{ head_model.model.digest }}"
      files: "{{ head_model.model.files }}"
    sources:
      - host: spark-a
        addresses: "{{ offer.addresses }}"
        port: "{{ offer.port }}"
        token: "{{ offer.token }}"

- name: Hand the model on from the second node while it still comes
  gb10.serving.model_sync:
    state: offered
    following: true
    path: ~/models/Qwen3.5-122B-A10B-FP8
    manifest:
      digest: "{{ head_model.model.digest }}"
      files: "{{ head_model.model.files }}"
    addresses: [192.168.200.13, 192.168.201.13]
    allowed: [192.168.200.14, 192.168.201.14]
  no_log: true
  register: second_offer

- name: Read every file again, and fetch only what is damaged
  gb10.serving.model_sync:
    path: ~/models/Qwen3.5-122B-A10B-FP8
    verify: full
    manifest:
      digest: "{{ head_model.model.digest }}"
      files: "{{ head_model.model.files }}"

- name: Close the offer
  gb10.serving.model_sync:
    state: withdrawn
    session: "{{ offer.session }}"
"""

RETURN = r"""
path:
  description: The model directory with home and links resolved.
  returned: O(state=present) and O(state=offered)
  type: str
  sample: /home/me/models/Qwen3.5-122B-A10B-FP8
digest:
  description: Digest of the model.
  returned: O(state=present) and O(state=offered)
  type: str
  sample: sha256:3c1f2a
moved_bytes:
  description: Bytes that came over the wire; in check mode those that would come at least.
  returned: O(state=present)
  type: int
  sample: 0
resumed_bytes:
  description: Bytes that an earlier, interrupted run had brought.
  returned: when something was fetched
  type: int
  sample: 0
files_moved:
  description: How many files were fetched or completed.
  returned: when something was fetched
  type: int
  sample: 39
rails:
  description: Bytes by the address of the source that they came from.
  returned: when something was fetched
  type: dict
  sample: {192.168.200.12: 63500000000, 192.168.201.12: 63500000000}
refetched:
  description: Files that came damaged and were fetched again.
  returned: when something was fetched
  type: list
  elements: str
  sample: []
sha256_known:
  description: Of how many of the fetched files the source knew the SHA-256 before it read them.
  returned: when something was fetched
  type: int
  sample: 39
damaged:
  description: Files whose content was not what it should be.
  returned: O(verify=full), or when a directory without a marker was read
  type: list
  elements: str
  sample: []
verified:
  description: Whether the content of every file was compared, and not only sizes and headers.
  returned: O(state=present) unless check mode found something to copy
  type: bool
  sample: true
seconds:
  description: Duration of the copy with verification.
  returned: O(state=present)
  type: float
  sample: 64.2
total_bytes:
  description: Size of the offered model.
  returned: O(state=offered)
  type: int
  sample: 127000000000
address:
  description: First of RV(addresses).
  returned: O(state=offered)
  type: str
  sample: 192.168.200.12
addresses:
  description: Addresses of the offer; those of rails that are not up are left out.
  returned: O(state=offered)
  type: list
  elements: str
  sample: [192.168.200.12, 192.168.201.12]
port:
  description: Port of the offer.
  returned: O(state=offered)
  type: int
  sample: 40123
token:
  description: Token of the offer. Keep it out of logs with C(no_log).
  returned: O(state=offered)
  type: str
  sample: VALUE_HIDDEN
session:
  description: Name of the offer on its node.
  returned: O(state=offered)
  type: str
  sample: /run/gb10-offer-x1y2
"""

from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._model_sync import offered, present
from ansible_collections.gb10.serving.plugins.module_utils._sync import run_module


def main() -> None:
    own: dict[str, Any] = {
        "path": {"type": "str"},
        "manifest": {
            "type": "dict",
            "options": {
                "digest": {"type": "str", "required": True},
                "files": {"type": "list", "elements": "dict", "required": True},
                "files_count": {"type": "int"},
            },
        },
        "streams": {"type": "int", "default": 2},
        "verify": {"type": "str", "choices": ["none", "full"], "default": "none"},
        "owner": {"type": "str"},
        "group": {"type": "str"},
    }
    run_module(own, subject="path", present_needs=["path", "manifest"], present=present, offered=offered)


if __name__ == "__main__":
    main()
