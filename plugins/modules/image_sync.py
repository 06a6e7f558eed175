#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: image_sync
short_description: Bring a container image from one node to others
version_added: 0.1.0
description:
  - Makes a node end with a container image of a given content, streamed from a node that has it over the fabric.
  - The source saves, the receiver loads, no archive is written in between and the controller carries no bulk data.
  - A source that is root reads the layers where Docker's overlay2 store keeps them, those only that a receiver lacks,
    and compares each with its digest. Where that does not work C(docker save) is used, which writes all to disk first.
  - One save feeds all receivers. A receiver that itself offers with O(following) hands the stream on while it loads.
  - Layers that a receiver has are left out where its Docker takes such an archive; one that does not gets all of them,
    and that is remembered until the node starts again.
  - Docker keeps nothing of a stream that breaks, so a copy of an image does not resume, it begins anew.
  - The image that had the reference before stays as C(REPOSITORY:gb10-previous); one such image is kept.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.sync
attributes:
  check_mode:
    support: full
    details:
      - With O(state=present) it says how many bytes a run would move at most, when O(size_bytes) is given. It opens no
        offer.
  idempotent:
    support: partial
    details:
      - With O(state=present), an image that is there already moves nothing. Each O(state=offered) opens a new offer.
options:
  image:
    description: Reference of the image, with its tag. Needed unless O(state=withdrawn).
    type: str
  content:
    description:
      - Content identity as RV(gb10.serving.engine_info#module:engine) gives it on the source.
      - Needed with O(state=present), and with O(state=offered) when O(following) is set.
    type: str
  architecture:
    description: Architecture of the image on the source. A node of another architecture refuses it.
    type: str
  size_bytes:
    description: Size of the image on the source, for progress, the check of disk space and check mode.
    type: int
  receivers:
    description:
      - With O(state=offered), how many nodes fetch from this one directly.
      - The stream begins when all of them are there, or some seconds after the last one came.
    type: int
    default: 1
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Offer the image on the head
  gb10.serving.image_sync:
    state: offered
    image: vllm/vllm-openai:nightly
    addresses: [192.168.200.12, 192.168.201.12]
    allowed: [192.168.200.13, 192.168.201.13]
  become: true
  no_log: true
  register: offer

- name: Load the image on the other node
  gb10.serving.image_sync:
    image: vllm/vllm-openai:nightly
    content: "{{ head_engine.image.content }}"
    architecture: "{{ head_engine.image.architecture }}"
    size_bytes: "{{ head_engine.image.size_bytes }}"
    sources:
      - host: spark-a
        addresses: "{{ offer.addresses }}"
        port: "{{ offer.port }}"
        token: "{{ offer.token }}"
  become: true

- name: Close the offer
  gb10.serving.image_sync:
    state: withdrawn
    session: "{{ offer.session }}"
  become: true
"""

RETURN = r"""
content:
  description: Content identity of the image here.
  returned: O(state=present) and O(state=offered)
  type: str
  sample: sha256:3c1f2a
moved_bytes:
  description: Bytes that came over the wire; in check mode those that would come at most, V(null) when unknown.
  returned: O(state=present)
  type: int
  sample: 0
left_out_bytes:
  description: Bytes of layers that were here and did not have to come.
  returned: when something was fetched
  type: int
  sample: 17400000000
source:
  description: The source that gave the image, V(null) when nothing had to come.
  returned: when something was fetched
  type: str
  sample: spark-a
failed_sources:
  description: What sources said that were tried before the one that gave the image.
  returned: when there were some
  type: list
  elements: str
  sample: ["spark-a: the stream broke after 1048576 bytes: the source closed the connection"]
saved_because:
  description: Why the source used C(docker save), which is slower, instead of Docker's own files.
  returned: when it did
  type: str
  sample: "docker's store is containerd, expected overlay2"
whole_because:
  description: Why all layers came although some were here.
  returned: when Docker here did not take the archive without them
  type: str
  sample: "docker load ended with 1: layer not found"
seconds:
  description: Duration of the copy.
  returned: O(state=present)
  type: float
  sample: 21.4
previous:
  description: Reference of the image that was replaced, V(null) when there was none.
  returned: when the image was loaded
  type: str
  sample: vllm/vllm-openai:gb10-previous
architecture:
  description: Architecture of the offered image.
  returned: O(state=offered)
  type: str
  sample: arm64
size_bytes:
  description: Size of the offered image.
  returned: O(state=offered)
  type: int
  sample: 18200000000
addresses:
  description: Addresses of the offer.
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

import platform
import socket
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import (
    _disk,
    _image,
    _image_copy,
    _image_docker,
    _image_offer,
    _image_relay,
    _image_store,
    _offer,
)
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._sync import carry_out, run_module


def offered(module: AnsibleModule) -> dict[str, Any]:
    ref, receivers = module.params["image"], module.params["receivers"]
    problem = _image.problem_of_ref(ref)
    if problem:
        raise JobError(f"The image {ref!r} cannot be offered: {problem}.")
    image = _image_docker.inspect(ref)
    following, content = module.params["following"], module.params["content"]
    if following and not content:
        raise JobError(f"To follow the copy of {ref} to this node, give its content as the source states it.")
    comes = following and image["content"] != content
    if not image["present"] and not comes:
        raise JobError(
            f"The image {ref} is not on {socket.gethostname()}, so it cannot be offered. Pull or load it here "
            "first, or offer it from another node."
        )
    facts = {key: image[key] for key in ("content", "architecture", "size_bytes")}
    if module.check_mode:
        return dict(facts, changed=True)
    root = _image_docker.docker_root()
    store = "" if comes else _image_store.find_or_why_not(ref)
    lack = _disk.lack_of_space(root, image["size_bytes"]) if root and not comes and isinstance(store, str) else None
    if lack:
        raise JobError(f"{lack} (docker save writes all layers there before it sends them. It is needed: {store}.)")

    def handler(session: str) -> _offer.Handler:
        if not comes:
            return _image_offer.offer_of(ref, image["architecture"], store, receivers)
        theirs = module.params["architecture"] or _image.architecture_of_machine(platform.machine())
        return _image_relay.Relay(
            session,
            content,
            lambda: _image_docker.inspect(ref)["content"] == content,
            lambda: _image_offer.offer_of(ref, theirs, _image_store.find_or_why_not(ref)),
            receivers,
        )

    offer = _offer.open_offer(
        module.params["addresses"],
        module.params["port"],
        module.params["allowed"],
        module.params["idle_timeout"] or 120,
        handler,
    )
    return dict(facts, changed=True, **offer)


def present(module: AnsibleModule) -> dict[str, Any]:
    ref, content, size = module.params["image"], module.params["content"], module.params["size_bytes"]
    host = socket.gethostname()
    problem = _image.problem_of_ref(ref)
    if problem:
        raise JobError(f"The image {ref!r} cannot be distributed: {problem}.")
    theirs = module.params["architecture"]
    mine = _image.architecture_of_machine(platform.machine())
    if theirs and theirs != mine:
        raise JobError(f"The image {ref} is built for {theirs}, {host} is {mine}. Use an image for {mine}.")
    image = _image_docker.inspect(ref)
    diff = {"before": f"{ref} {image['content'] or 'absent'}\n", "after": f"{ref} {content}\n"}
    if image["content"] == content:
        return {
            "changed": False,
            "moved_bytes": 0,
            "seconds": 0.0,
            "content": content,
            "diff": dict(diff, before=diff["after"]),
        }
    kept = _image_docker.inspect(_image.previous_ref(ref))
    moves = 0 if kept["content"] == content else size
    root = _image_docker.docker_root()
    if root and moves:
        lack = _disk.lack_of_space(root, 2 * moves)
        if lack:
            raise JobError(
                f"{lack} (docker load unpacks the image beside its archive, so it needs the size twice for a while.)"
            )
    if module.check_mode:
        return {"changed": True, "moved_bytes": moves, "seconds": 0.0, "content": content, "diff": diff}
    sources = module.params["sources"] or []
    if not sources and moves != 0:
        raise JobError(
            f"The image {ref} on {host} has the content {image['content'] or '(absent)'}, expected {content}, and "
            "no source was given. Offer it on a node that has it."
        )
    idle = module.params["idle_timeout"] or 300

    def work(progress: Progress) -> dict[str, Any]:
        progress.bytes_total = moves
        return dict(_image_copy.fetch(ref, content, sources, idle, progress, seen=(image, kept)), changed=True)

    return dict(carry_out(module, work, idle), diff=diff)


def main() -> None:
    own: dict[str, Any] = {
        "image": {"type": "str"},
        "content": {"type": "str"},
        "architecture": {"type": "str"},
        "size_bytes": {"type": "int"},
        "receivers": {"type": "int", "default": 1},
    }
    run_module(own, subject="image", present_needs=["image", "content"], present=present, offered=offered)


if __name__ == "__main__":
    main()
