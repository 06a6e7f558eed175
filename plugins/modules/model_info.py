#!/usr/bin/python
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_info
short_description: Describe a model, in a directory or on a Hugging Face hub
version_added: 0.1.0
author: gb10.serving contributors (@gb10-serving)
description:
  - Reads C(config.json), the index and the header of every safetensors file of a model directory, in parallel.
  - The weights themselves are not read, so a model of hundreds of gigabytes takes less than a second.
  - With O(id) the same is read from a hub by HTTP ranges, some hundred kilobytes, before any download.
  - Where no weights are there or headers are missing, the bytes are derived from C(config.json) if the architecture is
    known; RV(model.tensors.source) tells which it was. An unknown architecture is never guessed.
  - Finds files that are missing, truncated, unreadable or contradict each other, also without an index. Shards are
    counted by their names (C(-00001-of-00039)), layers by C(num_hidden_layers), and files of a known architecture have
    to hold at least half of the bytes that C(config.json) describes.
  - A missing or broken model is not a failure of the module. It is told by RV(model.exists), RV(model.complete) and
    RV(model.problems).
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
options:
  path:
    description:
      - Directory of the model in Hugging Face format. C(~) is the home directory of the user that the module runs as.
      - An entry of a Hugging Face cache (C(models--ORGANISATION--NAME)) leads to the snapshot that C(refs/main) names,
        or to the only one there is.
      - Hidden files and directories are left out.
      - One of O(path) and O(id) is required.
    type: path
  id:
    description:
      - Id of the model on the hub, C(ORGANISATION/NAME).
      - A whole copy in the Hugging Face cache of the user that the module runs as is read instead, when O(revision) is
        not given.
    type: str
  revision:
    description: Branch, tag or commit on the hub. C(main) when not given.
    type: str
  endpoint:
    description:
      - Address of the hub or of a mirror.
      - The environment variable E(HF_ENDPOINT), then C(https://huggingface.co), are used when not given.
    type: str
  token:
    description:
      - Access token for private and gated models. It is sent to O(endpoint) only, not to where that redirects.
      - The environment variable E(HF_TOKEN), then the token that the hub's own tools stored, are used when not given.
    type: str
seealso:
  - module: gb10.serving.memory_plan
"""

EXAMPLES = r"""
- name: Describe the model
  gb10.serving.model_info:
    path: /home/spark/models/Qwen3.5-122B-A10B-FP8
  register: described

- name: Describe a model that has not been downloaded
  gb10.serving.model_info:
    id: Qwen/Qwen3.5-122B-A10B-FP8
  delegate_to: localhost

- name: Stop when the model is not whole
  ansible.builtin.assert:
    that: described.model.complete
    fail_msg: "{{ described.model.problems | join(' ') }}"
"""

RETURN = r"""
model:
  description: What is in the directory.
  returned: always
  type: dict
  contains:
    path:
      description: The directory that holds the files, after resolving a cache entry; the address of a model on a hub.
      type: str
      returned: always
      sample: /home/spark/models/Qwen3.5-122B-A10B-FP8
    exists:
      description: Whether the directory is there, or the model on the hub.
      type: bool
      returned: always
      sample: true
    complete:
      description: Whether the model is whole, that is, RV(model.problems) is empty.
      type: bool
      returned: always
      sample: true
    problems:
      description: What is wrong, one sentence each, with the file and the next step. At most 21.
      type: list
      elements: str
      returned: always
      sample: []
    total_bytes:
      description: Size of all files.
      type: int
      returned: always
      sample: 125012345678
    weights_bytes:
      description: Size of all tensors in the safetensors files.
      type: int
      returned: always
      sample: 124998765432
    files:
      description:
        - Name and size of each file, sorted by name. At most 1000.
        - C(sha256) where it costs nothing. Small files are read. Of the weights it is what the hub's metadata or an
          earlier copy noted, while the file is still that one.
        - Bytes of a name that are not UTF-8 are written as C(\udcff). Such a name is one of RV(model.problems).
      type: list
      elements: dict
      returned: always
      sample:
        - name: config.json
          size: 2931
          sha256: 9f2c1b0e9f2c1b0e9f2c1b0e9f2c1b0e9f2c1b0e9f2c1b0e9f2c1b0e9f2c1b0e
    files_count:
      description: Number of files.
      type: int
      returned: always
      sample: 52
    shards:
      description: Number of safetensors files that hold the weights.
      type: int
      returned: always
      sample: 39
    architectures:
      description: Classes that C(config.json) names.
      type: list
      elements: str
      returned: always
      sample: [Qwen3_5MoeForConditionalGeneration]
    model_type:
      description: The model family.
      type: str
      returned: always
      sample: qwen3_5_moe
    quantization:
      description: Method, bits, block and KV cache dtype of the checkpoint's quantisation. Null when it has none.
      type: dict
      returned: always
      sample: {method: fp8, bits: 8, block: [128, 128], algorithm: null, kv_cache: null}
    config:
      description: The numbers of C(config.json) that memory planning needs, under the same names for every family.
      type: dict
      returned: always
      sample: {num_hidden_layers: 48, hidden_size: 3072, layer_kinds: {full: 12, linear: 36}}
    tensors:
      description: Number of tensors, and their bytes by class and by dtype.
      type: dict
      returned: always
      contains:
        source:
          description:
            - Where the bytes by class come from, C(safetensors headers) or C(config.json). V(null) when neither tells.
          type: str
          returned: always
          sample: safetensors headers
        reason:
          description: Why neither headers nor C(config.json) told the bytes; V(null) when one did.
          type: str
          returned: always
          sample: null
        count:
          description: Number of tensors in the headers; 0 when there are none.
          type: int
          returned: always
          sample: 75432
        by_class:
          description: Bytes of each class of tensors; a class holds what tensor parallelism treats alike.
          type: dict
          returned: always
          sample: {experts: 115964116992, attention: 906190848}
        by_dtype:
          description: Bytes of each dtype.
          type: dict
          returned: always
          sample: {BF16: 4294967296, F8_E4M3: 120259084288}
    free_bytes:
      description: Free space of the filesystem where the directory is or would be. V(null) for a model on a hub.
      type: int
      returned: always
      sample: 3200000000000
    writable:
      description:
        - Whether the user that the module runs as may write the directory, or make it. V(null) for a model on a hub.
      type: bool
      returned: always
      sample: true
    copied_digest:
      description: Digest of the model that was copied or recognised here, as its marker says; V(null) without one.
      type: str
      returned: always
      sample: null
    mounts:
      description:
        - What a container that mounts RV(model.path) as C(/model) needs beside it to follow the model's links,
          as in a Hugging Face cache. Empty for a directory of plain files.
      type: list
      elements: dict
      returned: always
      sample: [{host: /home/me/.cache/huggingface/hub/models--a--b/blobs, container: /blobs}]
    digest:
      description:
        - Identity of the model, from file names, sizes, safetensors headers and the content of small text files.
        - Equal copies on two nodes have equal digests. The content of the weights is not part of it, so that two
          revisions may have one digest; RV(model.files) tells them apart where the content is known.
      type: str
      returned: always
      sample: sha256:9f2c1b0e9f2c1b0e9f2c1b0e9f2c1b0e9f2c1b0e9f2c1b0e9f2c1b0e9f2c1b0e
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import _disk
from ansible_collections.gb10.serving.plugins.module_utils._model import inspect, printable
from ansible_collections.gb10.serving.plugins.module_utils._model_hub import inspect_id
from ansible_collections.gb10.serving.plugins.module_utils._model_links import directories_beside
from ansible_collections.gb10.serving.plugins.module_utils._model_manifest import present_sums
from ansible_collections.gb10.serving.plugins.module_utils._model_state import marked_digest


def on_disk(model: dict[str, Any]) -> dict[str, Any]:
    """What only a directory has."""
    path = model["path"]
    if path.startswith(("http://", "https://")):
        return {"free_bytes": None, "writable": None, "copied_digest": None, "mounts": []}
    sums = present_sums(path, {file["name"]: file["size"] for file in model["files"]})
    beside = directories_beside(path, [file["name"] for file in model["files"]])
    return {
        "files": [{**file, "sha256": sums[file["name"]]} if file["name"] in sums else file for file in model["files"]],
        "free_bytes": _disk.free_bytes(path),
        "writable": _disk.may_write(path),
        "copied_digest": marked_digest(path),
        "mounts": [{"host": host, "container": container} for container, host in sorted(beside.items())],
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "id": {"type": "str"},
            "revision": {"type": "str"},
            "endpoint": {"type": "str"},
            "token": {"type": "str", "no_log": True},
        },
        required_one_of=[("path", "id")],
        mutually_exclusive=[("path", "id")],
        supports_check_mode=True,
    )
    wanted = module.params
    if wanted["id"]:
        model = inspect_id(wanted["id"], wanted["revision"], wanted["endpoint"], wanted["token"])
    else:
        model = inspect(wanted["path"])
    module.exit_json(changed=False, model=printable({**model, **on_disk(model)}))


if __name__ == "__main__":
    main()
