#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: engine_log_info
short_description: Why an engine did not start, by its log
version_added: 0.1.0
description:
  - Reads the log of a vLLM or SGLang start; names its phase, its verdict and, if it failed, one cause and its remedy.
  - What follows from a deeper cause, or from the end of another rank, does not hide the cause itself.
  - The causes are listed in C(docs/causes.md) of the collection. A failure that is not recognised is called V(unknown).
  - Of a large file its begin and its end are read, which is where a start tells its configuration and its failure.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
options:
  path:
    description: >-
      File with the log, as docker, the journal or a terminal wrote it, in UTF-8, or in UTF-16 with a byte order mark.
    type: path
  text:
    description: The log itself, in place of O(path).
    type: str
  peers:
    description:
      - Logs of the other ranks of the same start.
      - Nothing else tells a rank that only waits for others, or notices their end, from the one that has the cause.
    type: list
    elements: path
    default: []
  silent_seconds:
    description:
      - For how long the log has had no new line, where that is known.
      - Without it, a log that ends between the begin and the end of the rendezvous is taken for one that stays there.
    type: float
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Why did it not start?
  gb10.serving.engine_log_info:
    path: /var/log/vllm-rank0.log
  register: told

- name: The log of rank 0 in the light of rank 1's
  gb10.serving.engine_log_info:
    path: rank0.log
    peers: [rank1.log]
  delegate_to: localhost
"""

RETURN = r"""
engine:
  description: V(vllm), V(sglang), or V(unknown) where the log does not show it.
  returned: always
  type: str
  sample: vllm
phase:
  description: How far the start came; V(starting), V(rendezvous), V(weights), V(kv_cache), V(graphs) or V(ready).
  returned: always
  type: str
  sample: rendezvous
percent:
  description: Share of the weights that is loaded, where the log tells it.
  returned: always
  type: int
  sample: null
verdict:
  description: >-
    V(ready), V(failed), V(stalled) where it waits in vain, V(running) where nothing is wrong yet, or V(unknown), which
    is also said, with RV(phase) as it was, of a server that was stopped from outside: it is neither ready nor failed.
  returned: always
  type: str
  sample: failed
cause:
  description: Identifier of the cause, V(unknown) where no rule knows the failure, V(null) where nothing is wrong.
  returned: always
  type: str
  sample: port_in_use
remedy:
  description: What to do about it.
  returned: always
  type: str
  sample: Stop the other listener (`ss -ltnp` names it) or choose another port on all ranks.
evidence:
  description: Lines that tell it, the deciding one first, without API keys and other secrets.
  returned: always
  type: list
  elements: str
  sample: ["OSError: [Errno 98] Address already in use"]
confidence:
  description: V(high), V(medium) or V(low).
  returned: always
  type: str
  sample: high
"""

import codecs
import errno
import io
import os
import stat

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import classify, of_all

#: Bytes read from the begin and from the end of a file.
HEAD = 256 * 1024
TAIL = 1024 * 1024
BOM = "\ufeff"


def read_ends(path: str) -> str:
    """The text of a file, without its middle if it is large.

    Raises:
        OSError: not there, not readable, or no file with an end.
    """
    # A pipe without a writer would be waited for, at its opening and at its reading.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb", buffering=0) as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode):
            code = errno.EISDIR if stat.S_ISDIR(about.st_mode) else errno.EINVAL
            raise OSError(code, os.strerror(code) if code == errno.EISDIR else "It is a pipe, a device or a socket")
        size = about.st_size
        if size <= HEAD + TAIL:
            whole = read_some(stream, HEAD + TAIL)
            return whole.decode(encoding_of(whole), "replace").removeprefix(BOM)
        head = read_some(stream, HEAD)
        encoding = encoding_of(head)
        stream.seek((size - TAIL) // 2 * 2)  # at the begin of a character, where each has two bytes
        tail = read_some(stream, TAIL).decode(encoding, "replace")
    begin = head.decode(encoding, "replace").removeprefix(BOM)
    # Whole lines only.
    return begin[: begin.rfind("\n") + 1] + tail[tail.find("\n") + 1 :]


def read_some(stream: io.FileIO, most: int) -> bytes:
    """What there is up to ``most`` bytes; some files of the kernel have nothing at first, or less than they say."""
    parts = []
    while most > 0 and (part := stream.read(most)):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def encoding_of(head: bytes) -> str:
    """PowerShell writes what a program prints as UTF-16 into a file, with a mark at its begin."""
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le"
    return "utf-16-be" if head.startswith(codecs.BOM_UTF16_BE) else "utf-8"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path"},
            "text": {"type": "str"},
            "peers": {"type": "list", "elements": "path", "default": []},
            "silent_seconds": {"type": "float"},
        },
        mutually_exclusive=[("path", "text")],
        required_one_of=[("path", "text")],
        supports_check_mode=True,
    )
    params = module.params
    texts = [] if params["path"] else [params["text"]]
    for path in [params["path"], *params["peers"]] if params["path"] else params["peers"]:
        try:
            texts.append(read_ends(path))
        except OSError as error:
            module.fail_json(
                msg=f"{os.uname().nodename}: the log {path} cannot be read: {error.strerror}. "
                "Expected: a regular file that this user may read. Next step: check the path, or run with become."
            )
    results = [classify(texts[0], params["silent_seconds"]), *(classify(text) for text in texts[1:])]
    module.exit_json(changed=False, **of_all(results)[0])


if __name__ == "__main__":
    main()
