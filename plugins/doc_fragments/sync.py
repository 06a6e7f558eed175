# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Options that the modules share which copy from node to node."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
attributes:
  diff_mode:
    support: full
  platform:
    platforms: linux
options:
  state:
    description:
      - With V(offered) a node opens a one-time server that ends by itself. With V(present) other nodes fetch from it.
        With V(withdrawn) the server ends at once.
    type: str
    choices: [present, offered, withdrawn]
    default: present
  sources:
    description:
      - Where to fetch, as O(state=offered) returned it, in order of preference. When one fails, the next takes over.
      - Needed only when something has to be fetched.
    type: list
    elements: dict
    suboptions:
      host:
        description: Name of the source in messages.
        type: str
      addresses:
        description: Fabric addresses of the source that this node reaches, one for each rail.
        type: list
        elements: str
        required: true
      port:
        description: Port of the offer.
        type: int
        required: true
      token:
        description: One-time token of the offer.
        type: str
        required: true
  addresses:
    description: Fabric addresses of this node to listen on, one for each rail. Needed with O(state=offered).
    type: list
    elements: str
  following:
    description:
      - With O(state=offered), this node is a receiver itself. It hands on what has arrived, while the rest still comes.
    type: bool
    default: false
  port:
    description: Port to listen on, the same on all addresses; V(0) takes a free one.
    type: int
    default: 0
  allowed:
    description: Addresses that may fetch. Needed with O(state=offered).
    type: list
    elements: str
  session:
    description: The offer to withdraw, as O(state=offered) returned it.
    type: str
  idle_timeout:
    description:
      - Seconds without anything moving after which a copy fails, 300 unless set.
      - With O(state=offered), seconds without a connection after which the offer ends, 120 unless set.
    type: int
  wait:
    description:
      - With V(false) and O(state=present), a copy is started and the task returns its C(job) for
        M(gb10.serving.copy_wait).
      - A result without C(job) says that there is nothing to wait for.
    type: bool
    default: true
  detach:
    description: Set by the action plugin. The copy runs detached and the result names its folder as RV(ignore:job).
    type: bool
    default: false
"""
