# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Networks and containers of the rehearsal nodes. Private to the rehearsal tool."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ._engine import Engine
from ._settings import LABEL, MANAGEMENT, NETWORKS, RAILS, Network, Node, Places, digest
from ._shell import Problem, as_root, run, say

READY_SECONDS = 90
CAPABILITIES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
    "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
    "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
    "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ",
)  # fmt: skip


def missing_capabilities(status: str) -> list[str]:
    """Capabilities outside of the bounding set in a /proc/<pid>/status text."""
    for line in status.splitlines():
        if line.startswith("CapBnd:"):
            bounding = int(line.split()[1], 16)
            return [name for bit, name in enumerate(CAPABILITIES) if not bounding >> bit & 1]
    return []


def network_arguments(network: Network) -> list[str]:
    options = {
        "com.docker.network.bridge.name": network.bridge,
        "com.docker.network.driver.mtu": str(network.mtu),
    }
    if network.netdev:  # a rail: this machine gets no address on it
        options["com.docker.network.bridge.inhibit_ipv4"] = "true"
    flags = [f"--opt={key}={value}" for key, value in options.items()]
    return ["--driver=bridge", "--internal", f"--subnet={network.subnet}", *flags]


def container_arguments(node: Node, image: str, key: str, dropped: Iterable[str]) -> list[str]:
    return [
        f"--name={node.container}",
        f"--hostname={node.name}",
        "--restart=no",
        "--cap-add=ALL",
        *(f"--cap-drop={name}" for name in dropped),
        "--security-opt=seccomp=unconfined",
        "--security-opt=apparmor=unconfined",
        "--security-opt=systempaths=unconfined",
        "--shm-size=4g",
        "--tmpfs=/run:rw,exec,mode=755",
        "--volume=/var/lib/docker",
        f"--env=GB10_REHEARSAL_NODE={json.dumps(node.describe(), sort_keys=True)}",
        f"--env=GB10_REHEARSAL_KEY={key}",
        f"--network={MANAGEMENT.name}",
        f"--ip={node.management}",
        image,
    ]


def ensure_networks(engine: Engine) -> None:
    for network in NETWORKS:
        wanted = digest(network_arguments(network))
        label = engine.try_docker("network", "inspect", "-f", f'{{{{index .Labels "{LABEL}.spec"}}}}', network.name)
        if label.returncode == 0 and label.stdout.strip() == wanted:
            continue
        if label.returncode == 0:
            _clear_network(engine, network)
        refuse_taken([network])
        say("network", f"creating {network.name} ({network.subnet}, MTU {network.mtu})")
        labels = [f"--label={LABEL}=network", f"--label={LABEL}.spec={wanted}"]
        engine.docker("network", "create", *network_arguments(network), *labels, network.name)
    firewall(engine, present=True)


def _clear_network(engine: Engine, network: Network) -> None:
    remove_containers(engine, list_containers(engine))
    engine.docker("network", "rm", network.name)


def taken_by(networks: Sequence[Network], links: list[dict[str, Any]]) -> list[str]:
    """What stands in the way among `ip -j addr`'s interfaces: a name or an address that the rehearsal needs."""
    found = []
    for network in networks:
        for link in links:
            addresses = [str(entry.get("local")) for entry in link.get("addr_info", [])]
            clash = [address for address in addresses if address.startswith(network.prefix + ".")]
            if clash or link.get("ifname") == network.bridge:
                has = f"has {', '.join(clash)}" if clash else "has that name"
                found.append(f"{network.name} needs {network.subnet} on {network.bridge}; {link['ifname']} {has}")
    return found


def refuse_taken(networks: Sequence[Network] = NETWORKS) -> None:
    """Clear message when another interface already has a subnet or a bridge name."""
    found = taken_by(networks, json.loads(run(["ip", "-j", "addr"]).stdout or "[]"))
    if found:
        raise Problem(
            "Addresses or names of the rehearsal are in use on this machine:\n  " + "\n  ".join(found) + "\n"
            "If another checkout runs its rehearsal, end it there: python3 tests/nodes/rehearse.py down"
        )


def firewall(engine: Engine, *, present: bool) -> None:
    """Our own engine writes no firewall rules; a foreign FORWARD policy must not cut the nodes from each other."""
    if not engine.own or shutil.which("iptables", path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
        return
    for network in NETWORKS:
        rule = ["FORWARD", "-i", network.bridge, "-o", network.bridge, "-m", "comment", "--comment", LABEL,
                "-j", "ACCEPT"]  # fmt: skip
        exists = run([*as_root(), "iptables", "-w", "-C", *rule], check=False).returncode == 0
        if present and not exists:
            run([*as_root(), "iptables", "-w", "-I", *rule], check=False)
        if exists and not present:
            run([*as_root(), "iptables", "-w", "-D", *rule], check=False)


def list_containers(engine: Engine) -> dict[str, dict[str, Any]]:
    """All node containers, by name: state and spec digest."""
    names = engine.docker("ps", "-a", "--filter", f"label={LABEL}=node", "--format", "{{.Names}}").split()
    if not names:
        return {}
    found = {}
    for entry in json.loads(engine.docker("inspect", "--type", "container", *names)):
        labels = entry["Config"]["Labels"]
        found[entry["Name"].lstrip("/")] = {
            "running": bool(entry["State"]["Running"]),
            "spec": labels.get(f"{LABEL}.spec", ""),
            "checkout": labels.get(f"{LABEL}.checkout", ""),
        }
    return found


def ensure_nodes(engine: Engine, where: Places, nodes: list[Node], image: str, key: str) -> list[str]:
    """Create, start or remove containers until exactly these nodes run. Returns the names that changed."""
    with open("/proc/self/status", encoding="utf-8") as status:
        dropped = missing_capabilities(status.read())
    found = list_containers(engine)
    foreign = {e["checkout"] for e in found.values()} - {str(where.root)}
    if foreign:
        raise Problem(
            f"Rehearsal nodes of another checkout run on this docker engine: {', '.join(sorted(foreign))}.\n"
            "End them there first: python3 tests/nodes/rehearse.py down"
        )
    wanted: dict[str, tuple[Node, list[str], str]] = {}
    for node in nodes:
        arguments = container_arguments(node, image, key, dropped)
        wanted[node.container] = (node, arguments, digest(arguments))
    stale = {n: e for n, e in found.items() if n not in wanted or e["spec"] != wanted[n][2]}
    remove_containers(engine, stale)
    changed = list(stale)
    starting = []
    for name, (node, arguments, spec) in wanted.items():
        if name not in found or name in stale:
            say("node", f"creating {node.name} ({node.management})")
            labels = [f"--label={LABEL}=node", f"--label={LABEL}.spec={spec}", f"--label={LABEL}.checkout={where.root}"]
            engine.docker("create", *labels, *arguments)
            for rail in RAILS:
                engine.docker("network", "connect", "--ip", rail.address(node.index), rail.name, name)
            starting.append(name)
        elif not found[name]["running"]:
            starting.append(name)
    if starting:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: engine.docker("start", name), starting))
    return sorted({*changed, *starting})


def remove_containers(engine: Engine, names: Iterable[str]) -> None:
    """Stop (so that ssh connections are closed properly), then remove with the anonymous volumes."""

    def remove(name: str) -> None:
        say("node", f"removing {name}")
        engine.try_docker("stop", "-t", "3", name)
        engine.docker("rm", "-f", "-v", name)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(remove, names))


def remove_networks(engine: Engine) -> None:
    firewall(engine, present=False)
    names = engine.docker("network", "ls", "--filter", f"label={LABEL}=network", "--format", "{{.Name}}").split()
    for name in names:
        say("network", f"removing {name}")
        engine.docker("network", "rm", name)


def wait_ready(engine: Engine, nodes: list[Node]) -> None:
    """Until process 1 of every node is set up and its dockerd answers."""
    end = time.monotonic() + READY_SECONDS
    for node in nodes:
        probe = "test -e /run/gb10-rehearsal-ready && docker version --format '{{.Server.Version}}'"
        while True:
            done = engine.try_docker("exec", node.container, "sh", "-c", probe)
            if done.returncode == 0:
                break
            state = engine.try_docker("inspect", "-f", "{{.State.Running}}", node.container).stdout.strip()
            if state != "true" or time.monotonic() > end:
                raise Problem(_diagnose(engine, node, state == "true"))
            time.sleep(0.2)


def _diagnose(engine: Engine, node: Node, running: bool) -> str:
    logs = engine.try_docker("logs", "--tail", "15", node.container)
    text = f"{node.name} is not ready after {READY_SECONDS} s" if running else f"{node.name} ended while starting"
    text += f".\nIts log (docker logs {node.container}):\n{logs.stdout}{logs.stderr}"
    if running:
        inner = engine.try_docker("exec", node.container, "tail", "-n", "10", "/var/log/dockerd.log")
        text += f"End of its /var/log/dockerd.log:\n{inner.stdout}"
    return text


def check_rails(engine: Engine, nodes: list[Node]) -> None:
    """One full-size packet from the first node to every other one, on each rail."""
    for rail in RAILS:
        for node in nodes[1:]:
            size = str(rail.mtu - 28)
            target = rail.address(node.index)
            ping = ["ping", "-M", "do", "-s", size, "-c", "1", "-W", "3", target]
            if engine.try_docker("exec", nodes[0].container, *ping).returncode != 0:
                raise Problem(
                    f"{nodes[0].name} does not reach {node.name} at {target} with {size} bytes on {rail.netdev}.\n"
                    "Likely a firewall of this machine drops bridged packets; look at: iptables -S FORWARD"
                )
