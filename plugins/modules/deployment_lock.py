#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: deployment_lock
short_description: Lets one deploy at a time work on the nodes
version_added: 0.1.0
description:
  - Keeps a lock file on the head (rank 0) that says who deploys and since when. On other hosts it does nothing.
  - While the run of Ansible lives, it renews the file every few seconds. When the run ends without giving the lock
    back, for instance because it was interrupted, the controller does so within seconds.
  - A lock without a sign of life is taken over, and so is one whose run has ended on the same controller.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.action
attributes:
  check_mode:
    support: full
    details:
      - Nothing is locked, since nothing will be changed.
  diff_mode:
    support: none
  idempotent:
    support: N/A
    details:
      - A lock is no state of the node, so that RV(ignore:changed) is always false.
options:
  state:
    description:
      - Whether this run takes the lock or gives it back. A lock of somebody else is never given back.
      - V(cleared) is for the holder. It ends, on every host, the copies that an interrupted run of this user left
        and nobody follows.
    type: str
    choices: [held, released, cleared]
    default: held
  root:
    description: Directory of the releases, in which the lock file stands. Needed unless O(state=cleared).
    type: path
  stale:
    description: Seconds without a sign of life after which a lock is taken over.
    type: float
    default: 120
  token:
    description: What O(state=held) returned. Needed with O(state=released).
    type: str
  owner:
    description: Set by the action plugin. Who takes the lock.
    type: dict
  gone:
    description: Set by the action plugin. Token of a holder whose run has ended.
    type: str
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Take the lock
  gb10.serving.deployment_lock:
    root: /opt/gb10-serving
  become: true
  register: lock

- name: Give it back
  gb10.serving.deployment_lock:
    state: released
    root: /opt/gb10-serving
    token: "{{ lock.token }}"
  become: true
  when: lock.token is defined
"""

RETURN = r"""
token:
  description: Names this run's hold of the lock. It is no secret.
  returned: O(state=held), on the head
  type: str
  sample: 3f9a0c12
ended:
  description: Copies that were ended.
  returned: O(state=cleared)
  type: list
  elements: str
  sample: [/run/gb10-job-x1y2]
holder:
  description:
    - Who holds the lock, when it is somebody else.
    - RV(ignore:damaged) is set when the lock file does not say, because it is not what a run writes.
  returned: when it is refused
  type: dict
  sample: {user: me, controller: laptop, pid: 4711, age: 840, silent: 3, path: /opt/gb10-serving/.deploy-lock.json}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import _lock


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["held", "released", "cleared"], "default": "held"},
            "root": {"type": "path"},
            "stale": {"type": "float", "default": 120},
            "token": {"type": "str", "no_log": False},
            "owner": {"type": "dict"},
            "gone": {"type": "str"},
        },
        required_if=[("state", "held", ["root"]), ("state", "released", ["root", "token"])],
        supports_check_mode=True,
    )
    args = module.params
    if module.check_mode:
        module.exit_json(changed=False)
    try:
        if args["state"] == "cleared":
            module.exit_json(changed=False, ended=_lock.clear())
        if args["state"] == "released":
            _lock.release(args["root"], args["token"])
            module.exit_json(changed=False)
        holder = _lock.take(args["root"], args["owner"] or {}, args["stale"], args["gone"])
    except OSError as error:
        module.fail_json(
            msg=f"{error.filename or args['root']}: {error.strerror or error}. Expected: a directory that root may "
            "write. Next step: mend that, or point gb10_server_root at another place."
        )
    module.exit_json(changed=False, holder=holder)


if __name__ == "__main__":
    main()
