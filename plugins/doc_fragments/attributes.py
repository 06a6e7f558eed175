# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module of this collection says about itself.

A module extends ``gb10.serving.attributes`` and gives C(support) for each attribute. Modules that only read, that need
no connection, or that run on a node take the matching second fragment instead of repeating the words.
"""

from __future__ import annotations


class ModuleDocFragment:
    # The attributes that each module has to answer.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and say what would change, without changing it.
  diff_mode:
    description: Returns details on what has changed, or would change in C(check_mode), when in diff mode.
  idempotent:
    description: A second run with the same options against an unchanged target reports no change.
  platform:
    description: The operating systems on which the module runs.
    support: full
    platforms: linux
"""

    # For modules that return data and change nothing.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - This module does not modify state.
  diff_mode:
    support: N/A
    details:
      - This module does not modify state.
  idempotent:
    support: full
    details:
      - This module does not modify state.
"""

    # For modules that return only C(ansible_facts).
    FACTS_MODULE = r"""
options: {}
attributes:
  facts:
    description: Returns a dictionary C(ansible_facts) that updates the facts of the host.
    support: full
  check_mode:
    support: full
    details:
      - This module does not modify state.
  diff_mode:
    support: N/A
    details:
      - This module does not modify state.
  idempotent:
    support: full
    details:
      - This module does not modify state.
"""

    # For modules whose work is done on the controller by an action plugin.
    ACTION = r"""
options: {}
attributes:
  action:
    description: Has an action plugin of the same name, so that parts of the work are done on the controller.
    support: full
"""

    # For action plugins that never open a connection.
    NO_CONNECTION = r"""
options: {}
attributes:
  connection:
    description: Uses the connection to the host to run code on it.
    support: none
"""
