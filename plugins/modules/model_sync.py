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
  - Files come into a staging directory beside the destination, are compared with the manifest, and then put in place.
    An interrupted copy goes on where it stopped.
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
      - Needed with O(state=present). With O(state=offered) the directory is compared with it.
    type: dict
    suboptions:
      digest:
        description: Digest of the model.
        type: str
        required: true
      files:
        description: Name and size of each file.
        type: list
        elements: dict
        required: true
      files_count:
        description: How many files the model has; a list that was cut is refused.
        type: int
  streams:
    description: How many files come at once.
    type: int
    default: 4
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
    address: 192.168.200.12
    allowed: [192.168.200.13]
  no_log: true
  register: offer

- name: Fetch the model on the other node
  gb10.serving.model_sync:
    path: ~/models/Qwen3.5-122B-A10B-FP8
    manifest:
      digest: "{{ head_model.model.digest }}"
      files: "{{ head_model.model.files }}"
    source:
      address: "{{ offer.address }}"
      port: "{{ offer.port }}"
      token: "{{ offer.token }}"

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
  description: Address of the offer.
  returned: O(state=offered)
  type: str
  sample: 192.168.200.12
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

import socket
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import _model, _model_copy, _model_state, _offer
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._sync import carry_out, owner_setter, run_module


def offered(module: AnsibleModule) -> dict[str, Any]:
    host = socket.gethostname()
    model = _model.inspect(module.params["path"])
    wanted = (module.params["manifest"] or {}).get("digest")
    if not model["complete"]:
        raise JobError(
            f"The model at {model['path']} on {host} is not complete, so it cannot be offered: "
            f"{' '.join(model['problems'][:3])}"
        )
    if wanted and wanted != model["digest"]:
        raise JobError(
            f"The model at {model['path']} on {host} has the digest {model['digest']}, expected {wanted}: it "
            "changed since it was looked at. Run again from the start."
        )
    facts = {key: model[key] for key in ("path", "digest", "total_bytes")}
    if module.check_mode:
        return dict(facts, changed=True)
    sizes = _model_state.check_manifest(model)
    offer = _offer.open_offer(
        module.params["address"],
        module.params["port"],
        module.params["allowed"],
        module.params["idle_timeout"] or 120,
        lambda _session: _model_copy.send_files(model["path"], sizes),
    )
    return dict(facts, changed=True, **offer)


def present(module: AnsibleModule) -> dict[str, Any]:
    host = socket.gethostname()
    wanted = _model_state.destination(module.params["path"], module.params["manifest"])
    state, wrong = wanted.observe()
    answer: dict[str, Any] = {"path": wanted.path, "digest": wanted.digest, "moved_bytes": 0, "seconds": 0.0}
    diff = {"before": "".join(f"to copy: {name}\n" for name in wrong) or f"{state}\n", "after": "ok\n"}
    own = owner_setter(module.params["owner"], module.params["group"], wanted.path)
    if state == "ok":
        return dict(answer, changed=False)
    if state == "unmarked":
        if not module.check_mode:
            wanted.mark(wanted.path)
            own(wanted.marker(wanted.path))
        return dict(answer, changed=True, diff=diff)
    moves = sum(wanted.sizes[name] for name in wrong) - wanted.staged_bytes(wrong)
    lack = wanted.lack_of_space(moves)
    if lack:
        raise JobError(lack)
    if module.check_mode:
        return dict(answer, changed=True, moved_bytes=moves, diff=diff)
    source = module.params["source"]
    if source is None:
        raise JobError(
            f"The model at {wanted.path} on {host} lacks {len(wrong)} of {len(wanted.sizes)} files "
            f"({moves / 1e9:.2f} GB) or differs from {wanted.digest}, "
            "and no source was given. Offer it on a node that has it."
        )
    idle = module.params["idle_timeout"] or 300

    def work(progress: Progress) -> dict[str, Any]:
        puller = _model_copy.Puller(source, max(1, module.params["streams"]), idle, progress)
        return dict(_model_copy.fetch(wanted, puller, own), changed=True, path=wanted.path)

    return dict(carry_out(module, work, idle), diff=diff)


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
        "streams": {"type": "int", "default": 4},
        "owner": {"type": "str"},
        "group": {"type": "str"},
    }
    run_module(own, subject="path", present_needs=["path", "manifest"], present=present, offered=offered)


if __name__ == "__main__":
    main()
