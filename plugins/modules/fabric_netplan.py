#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_netplan
short_description: Gives the cabled fabric port its addresses by netplan
version_added: 0.1.0
description:
  - Writes C(/etc/netplan/60-gb10-fabric.yaml) with an address in each subnet for the two interfaces of the QSFP port
    that has the link, and applies it.
  - A process that does not depend on the connection puts the old state back unless every other node answers on its new
    addresses within O(timeout) seconds.
  - A set-up by somebody else is left alone, be it C(/etc/netplan/40-cx7.yaml) of NVIDIA Sync, NVIDIA's playbooks, eugr
    or sparkrun, another netplan file or NetworkManager connection that names these interfaces, or an address of unknown
    origin. An address that equals the one which the node would get is no such sign, whoever set it; the file then makes
    it last.
  - It refuses to touch an interface that carries a default route or the connection of Ansible, and to do anything while
    a rank container runs on the node, because applying netplan breaks the traffic of the ranks.
  - All nodes must run it at the same time, each waits for the others. The action plugin gives each node its number in
    rank order.
  - What it refuses fails with what was seen, expected and the next step, and nothing is changed. Beside the above this
    is no port or several with a link, a port that is set down, subnets that overlap or do not hold the host numbers or
    that another interface is in, another change under way, and a run with one node only.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.action
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  number: {description: Host number of this node. Set by the action plugin from O(first_host) and the rank., type: int}
  peers: {description: Host numbers of the other nodes. Set by the action plugin., type: list, elements: int}
  first_host: {description: Host number of rank 0; the other ranks follow., type: int, default: 11}
  subnets:
    description: One subnet for each of the port's two interfaces, the lower PCI function first.
    type: list
    elements: str
    default: [192.168.200.0/24, 192.168.201.0/24]
  mtu:
    description: MTU of the interfaces, in bytes.
    type: int
    default: 9000
  port:
    description: Number of the QSFP port when several have a link; otherwise the one with a link.
    type: int
  management:
    description: Addresses or names of interfaces that must not be touched, beside those that are found.
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds within which the other nodes must answer.
    type: int
    default: 60
  sysroot:
    description: Directory with a captured machine to read interfaces and ports from, rather than this machine.
    type: path
    default: /
  root:
    description: Directory below which C(etc/netplan), C(etc/NetworkManager) and C(run) are.
    type: path
    default: /
  netplan:
    description: Command of netplan; a name is looked for in the search path.
    type: str
    default: netplan
  ping:
    description: Command that asks whether another node answers, called as C(ping -c 1 -W 1 -I INTERFACE ADDRESS).
    type: str
    default: ping
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Show what would be written
  gb10.serving.fabric_netplan:
    subnets: [192.168.200.0/24, 192.168.201.0/24]
  become: true
  check_mode: true
  diff: true
"""

RETURN = r"""
state:
  description:
    - V(written), V(would_write) (in check mode; RV(ignore:changed) then predicts), V(present) (nothing had to be done),
      V(foreign) (somebody else has set the port up; it was left alone) or V(restored) (the task failed because another
      node did not answer, and the old state is back).
  returned: when it is known; not when the module refuses
  type: str
  sample: written
reason:
  description: What was found that made the module leave the port alone.
  returned: when RV(state) is V(foreign)
  type: str
  sample: enp1s0f0np0 is set up by /etc/netplan/40-cx7.yaml
addresses:
  description: Interfaces with the address that each has or would get.
  returned: when the port is known; also in a failure that comes after
  type: dict
  sample: {enp1s0f0np0: 192.168.200.11/24, enP2p1s0f0np0: 192.168.201.11/24}
file:
  description: The file that was or would be written.
  returned: when it was or would be written, also when it was taken back
  type: str
  sample: /etc/netplan/60-gb10-fabric.yaml
backup:
  description: Copy of the file as it was before; empty when there was none.
  returned: when the file was written
  type: str
  sample: /etc/netplan/60-gb10-fabric.yaml.20261130T120000Z.bak
"""

import socket

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import _netplan
from ansible_collections.gb10.serving.plugins.module_utils import _netplan_apply as act
from ansible_collections.gb10.serving.plugins.module_utils._facts import gather
from ansible_collections.gb10.serving.plugins.module_utils._facts_source import sysroot_problem

#: The watchdog waits a little longer than the module, which tells more.
GRACE = 15


def look(module: AnsibleModule) -> _netplan.Seen:
    """Everything that the decision depends on."""
    root = module.params["root"]
    facts = gather(["fabric"], module.params["sysroot"], [])
    interfaces = facts["network"]["interfaces"]
    if interfaces is None:
        module.fail_json(
            msg=f"{socket.gethostname()}: 'ip -j addr' could not be read. Expected: the interfaces of the node. "
            "Next step: run 'ip -j addr' there."
        )
    texts = []
    for name in ("/proc/net/route", "/proc/net/ipv6_route"):
        try:
            with open(name, encoding="utf-8") as stream:
                texts.append(stream.read())
        except OSError:
            texts.append("")
    return _netplan.Seen(
        fabric=facts["fabric"],
        interfaces=interfaces,
        files=act.read_files(root, _netplan.NETPLAN, ".yaml"),
        keyfiles={
            path: text for folder in _netplan.KEYFILES for path, text in act.read_files(root, folder, "").items()
        },
        management=act.management(
            interfaces, act.default_routes(*texts), act.login_addresses(), module.params["management"]
        ),
    )


def apply(module: AnsibleModule, decision: _netplan.Decision, before: str, run: act.Runner) -> None:
    """Write, apply, and keep it only when the other nodes answer."""
    root, host, seconds = module.params["root"].rstrip("/"), socket.gethostname(), module.params["timeout"]
    netplan = module.get_bin_path(module.params["netplan"])
    if netplan is None:
        module.fail_json(
            msg=f"{host}: there is no command {module.params['netplan']}. Expected: netplan, which DGX OS ships. "
            "Nothing has been changed. Next step: set the addresses with the tool that this system uses."
        )
    trial = act.Trial(root + _netplan.FILE, root + "/run", [netplan, "apply"], seconds + GRACE)
    result = {"addresses": decision.addresses, "file": _netplan.FILE}
    try:
        trial.begin(decision.content)
    except FileExistsError:
        module.fail_json(
            msg=f"{host}: {trial.mark} exists. Expected: no other change of the addresses under way. "
            f"Next step: wait {seconds + GRACE} s and run again; after a reboot it is gone.",
            **result,
        )
    result["backup"] = trial.backup
    said = ""
    for argv in ([netplan, "generate"], [netplan, "apply"]):
        rc, out, err = run(argv)
        if rc != 0:
            said = f"'{' '.join(argv)}' ended with {rc}: {(err or out).strip()[-400:]}"
            break
    missing = list(decision.peers) if said else act.wait_for_peers(run, module.params["ping"], decision.peers, seconds)
    if not missing and not said and trial.confirm():
        module.exit_json(changed=True, state="written", diff=difference(decision, before), **result)
    trial.undo(run)
    if missing and not said:
        silent = ", ".join(f"{address} on {netdev}" for netdev, address in missing)
        said = f"no answer from {silent} within {seconds} s"
    module.fail_json(
        msg=f"{host}: {said or 'the change was taken back while the others were asked'}. Expected: every other node "
        f"answers on its new address ({act.interfaces_named(decision)} here). The old state is back. Next step: check "
        "the cable and that all nodes took part in this run, then run it again.",
        state="restored",
        **result,
    )


def difference(decision: _netplan.Decision, before: str) -> dict[str, str]:
    return {
        "before_header": _netplan.FILE,
        "after_header": _netplan.FILE,
        "before": before,
        "after": decision.content,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "number": {"type": "int"},
            "peers": {"type": "list", "elements": "int"},
            "first_host": {"type": "int", "default": 11},
            "subnets": {"type": "list", "elements": "str", "default": ["192.168.200.0/24", "192.168.201.0/24"]},
            "mtu": {"type": "int", "default": 9000},
            "port": {"type": "int"},
            "management": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 60},
            "sysroot": {"type": "path", "default": "/"},
            "root": {"type": "path", "default": "/"},
            "netplan": {"type": "str", "default": "netplan"},
            "ping": {"type": "str", "default": "ping"},
        },
        supports_check_mode=True,
    )

    def run(argv: list[str]) -> tuple[int, str, str]:
        rc, out, err = module.run_command(argv, environ_update={"LC_ALL": "C"}, handle_exceptions=False)
        return int(rc), str(out), str(err)

    host = socket.gethostname()
    problem = sysroot_problem(module.params["sysroot"], host)
    if problem:
        module.fail_json(msg=problem)
    number = module.params["number"]
    if number is None:
        number = module.params["first_host"]
    wishes = _netplan.Wishes(
        number=number,
        peers=module.params["peers"] or [],
        subnets=module.params["subnets"],
        mtu=module.params["mtu"],
        port=module.params["port"],
    )
    seen = look(module)
    decision = _netplan.decide(seen, wishes)
    if decision.state == _netplan.REFUSED:
        module.fail_json(msg=f"{host}: {decision.reason}")
    if decision.state == _netplan.FOREIGN:
        module.exit_json(
            changed=False,
            state="foreign",
            reason=decision.reason,
            addresses={name: ", ".join(_netplan.addresses_of(seen, name)) for name in decision.addresses},
            msg=f"{decision.reason}. It is left as it is.",
        )
    if decision.state == _netplan.PRESENT:
        module.exit_json(changed=False, state="present", addresses=decision.addresses)
    ranks, unknown = act.running_ranks(run, module.get_bin_path("docker"))
    if ranks or unknown:
        found = f"container {', '.join(ranks)} runs" if ranks else f"docker does not say what runs ({unknown})"
        module.fail_json(
            msg=f"{host}: {found}. Expected: no rank, because applying netplan breaks its traffic. Nothing has been "
            "changed. Next step: stop the deployment (playbook stop.yml), then run this again.",
            addresses=decision.addresses,
        )
    before = seen.files.get(_netplan.FILE, "")
    if module.check_mode:
        module.exit_json(
            changed=True,
            state="would_write",
            addresses=decision.addresses,
            file=_netplan.FILE,
            diff=difference(decision, before),
        )
    if not decision.peers:
        module.fail_json(
            msg=f"{host}: there is no other node. Expected: two or more in this run, since the change is kept only "
            "when the others answer. Next step: add them to the inventory, and run without --limit."
        )
    apply(module, decision, before, run)


if __name__ == "__main__":
    main()
