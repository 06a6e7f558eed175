# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: reads one RDMA device from sysfs. Reading only."""

from __future__ import annotations

import re
from typing import Any

from . import _facts_fabric as logic
from ._facts_fabric_checks import gid_owner, is_bond, master_in, physical_state
from ._facts_fabric_pci import INFINIBAND, NET, iommu_type, read_pcie, temperature
from ._facts_netplan import NO_NETPLAN
from ._facts_source import Source, safe_name

Tool = dict[str, Any]
COUNTERS = {
    "counters/port_rcv_data": ("received_bytes", 4),
    "counters/port_xmit_data": ("sent_bytes", 4),
    "counters/port_rcv_errors": ("receive_errors", 1),
    "counters/port_xmit_discards": ("send_discards", 1),
    "counters/symbol_error": ("symbol_errors", 1),
    "counters/link_downed": ("link_downed", 1),
    "counters/link_error_recovery": ("link_error_recovery", 1),
    "hw_counters/np_cnp_sent": ("cnp_sent", 1),
    "hw_counters/rp_cnp_handled": ("cnp_handled", 1),
    "hw_counters/out_of_sequence": ("out_of_sequence", 1),
    "hw_counters/packet_seq_err": ("packet_sequence_errors", 1),
    "hw_counters/local_ack_timeout_err": ("ack_timeouts", 1),
}


def captured_tools(source: Source) -> dict[str, dict[str, Any]]:
    """What captured tools say about each device; empty on a live machine."""
    devices: dict[str, dict[str, Any]] = {}
    if not source.captured:
        return devices
    # what only captured trees need is not loaded on a live machine: each probe would compile it anew
    from . import _facts_fabric_tools as tools

    for names, parse in (
        (["rdma-link", "rdma"], tools.parse_rdma_link),
        (["ibv_devinfo"], tools.parse_ibv_devinfo),
        (["ibstat"], tools.parse_ibstat),
        (["ibstatus"], tools.parse_ibstatus),
        (["show_gids"], tools.parse_show_gids),
        (["ibdev2netdev"], tools.parse_ibdev2netdev),
        (["ib_write_bw"], tools.parse_ib_write_bw),
        (["ibv_devices", "ls-sys-class-infiniband"], tools.parse_names),
    ):
        for text in source.captured_texts(names):
            parse(text, devices)
    return devices


def pci_address(source: Source, name: str, netdev: str | None) -> str | None:
    """The PCI function of an RDMA device, by links; by a name given from the PCI path only when there is no link."""
    base = INFINIBAND + "/" + name
    choices = [source.link_name(base + "/device")] + source.parent_names(base)
    if netdev:
        choices += [source.link_name(NET + "/" + netdev + "/device")]
    choices += [logic.pci_from_name(name), logic.pci_from_name(netdev)]
    return next((item for item in choices if item and logic.PCI_ADDRESS.match(item)), None)


def netdev_of(source: Source, name: str, port: str, tool: dict[str, Any]) -> tuple[str | None, str | None]:
    """The network interface of an RDMA device and how it was found."""
    base = INFINIBAND + "/" + name
    below = [item for item in source.entries(base + "/device/net") if safe_name(item)]
    # a function may carry representors too: the uplink is the one whose port name is p0, p1
    uplinks = [item for item in below if re.match(r"^p\d+$", source.value(f"{NET}/{item}/phys_port_name") or "")]
    if below:
        return (uplinks or below)[0], "device/net"
    pci = pci_address(source, name, None)
    if pci:
        same = [item for item in source.entries(NET) if source.link_name(f"{NET}/{item}/device") == pci]
        if len(same) == 1:
            return same[0], "PCI function"
    for index in source.entries(f"{base}/ports/{port}/gid_attrs/ndevs"):
        found = safe_name(source.value(f"{base}/ports/{port}/gid_attrs/ndevs/{index}"))
        if found:
            return found, "gid_attrs/ndevs"
    found = safe_name(tool.get("netdev"))
    return (found, "tool output") if found else (None, None)


def gid_table(source: Source, base: str, tool: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The used entries of the GID table; None when it cannot be read."""
    names = [name for name in source.entries(base + "/gids") if re.match(r"^[0-9]{1,5}$", name)]
    if not names:
        return tool.get("gids")
    table = []
    for name in sorted(names, key=int):
        gid = source.value(base + "/gids/" + name)
        if gid and gid.strip("0:"):
            kind, ndev = (source.value(f"{base}/gid_attrs/{what}/{name}") for what in ("types", "ndevs"))
            table.append({"index": int(name), "gid": gid, "type": kind, "ndev": safe_name(ndev)})
    return table


def netdev_up(source: Source, net: str, shown: bool | None) -> bool | None:
    """Does the interface have a carrier. An interface that is switched off has no carrier file to read."""
    carrier = source.value(net + "/carrier")
    if carrier in ("0", "1"):
        return carrier == "1"
    return False if source.value(net + "/operstate") == "down" else shown


def netdev_enabled(source: Source, net: str, shown: bool | None) -> bool | None:
    """Is the interface set up, whether it has a carrier or not; False when somebody has set it down."""
    flags = source.value(net + "/flags") or ""
    if re.match(r"^0x[0-9a-fA-F]{1,8}$", flags):
        return bool(int(flags, 16) & 1)
    if source.value(net + "/carrier") in ("0", "1"):
        return True
    # the kernel refuses to read the carrier of an interface that is set down
    refused = source.exists(net + "/carrier") and source.value(net + "/carrier") is None
    return False if refused and source.value(net + "/operstate") == "down" else shown


def netplan_file(network: dict[str, Any], netdev: str | None) -> str | None:
    """The netplan file that names the interface; of several the one that netplan reads last."""
    files = [entry["file"] for entry in network.get("netplan") or [] if netdev in entry["interfaces"]]
    return next((file for file in reversed(files) if file.startswith("/")), None)


def link_rate(source: Source, port: str, netdev: str | None, tool: Tool) -> tuple[float | int | None, str | None]:
    """(Gb/s, reason): what the port says; only when it says nothing, what the interface says."""
    text = source.value(port + "/rate") or ""
    rate = logic.parse_rate(text if "Gb/sec" in text else tool.get("rate"))
    if rate is not None or not netdev:
        return rate, None
    speed = source.number(f"{NET}/{netdev}/speed")
    if speed is not None and speed > 0:
        return speed // 1000, None
    if not source.captured:
        return None, None
    from . import _facts_fabric_tools as tools

    return tools.ethtool_speed(source.captured_named(["ethtool"]), netdev)


def interface_of(network: dict[str, Any], name: str | None) -> dict[str, Any] | None:
    return next((entry for entry in network["interfaces"] or [] if entry["name"] == name), None)


def master_of(source: Source, net: str, netdev: str) -> str | None:
    """The interface that another one is a part of, such as a bond."""
    return safe_name(source.link_name(net + "/master") or master_in(source.captured_texts(["ip"]), netdev))


def known_addresses(
    shown: dict[str, Any] | None, network: dict[str, Any], netdev: str | None, table: list[dict[str, Any]] | None
) -> tuple[list[str] | None, str | None]:
    """(addresses of the interface, where they stand); None when they are not known."""
    if shown is None:
        return ([], "ip addr") if network["complete"] and netdev else (None, None)
    if not shown.get("from_netplan"):
        return shown["ipv4"], "ip addr"
    used = {address for _index, address in logic.roce_v2_addresses(table or [])}
    plain = {address.partition("/")[0] for address in shown["ipv4"] or []}
    # what is planned counts only as long as the kernel does not show something else
    return (shown["ipv4"], "netplan") if not used or used & plain else (None, None)


def read_counters(source: Source, port: str, netdev: str | None) -> dict[str, int]:
    """The counters that could be read."""
    found = {}
    for path, (short, unit) in COUNTERS.items():
        value = source.number(port + "/" + path)
        if value is not None and value >= 0:
            found[short] = value * unit
    if source.captured and netdev and "received_bytes" not in found:
        from . import _facts_fabric_tools as tools

        received = tools.ethtool_rdma_bytes(source.captured_named(["ethtool-S"]), netdev)
        found.update({} if received is None else {"received_bytes": received})
    return found


def read_hca(source: Source, name: str, tool: Tool, network: dict[str, Any], missing: dict[str, str]) -> dict[str, Any]:
    """Everything about one RDMA device."""
    key = "fabric.hcas." + name
    base = INFINIBAND + "/" + name
    port = next((item for item in source.entries(base + "/ports") if item.isdigit()), "1")
    netdev, netdev_by = netdev_of(source, name, port, tool)
    pci = pci_address(source, name, netdev)
    ports = base + "/ports/" + port
    state = logic.parse_state(source.value(ports + "/state") or tool.get("state"))
    rate, rate_reason = link_rate(source, ports, netdev, tool)
    node_guid = logic.parse_guid(source.value(base + "/node_guid") or tool.get("node_guid"))
    system_guid = logic.parse_guid(source.value(base + "/sys_image_guid") or tool.get("sys_image_guid"))
    net = NET + "/" + (netdev or "-")
    chip = source.value(net + "/phys_switch_id") or (f"guid-{system_guid:016x}" if system_guid else None)
    number, port_by = logic.port_number(source.value(net + "/phys_port_name"), node_guid, system_guid, pci)
    shown = interface_of(network, netdev)
    table = gid_table(source, ports, tool)
    addresses, ipv4_by = known_addresses(shown, network, netdev, table)
    # a bond or a VLAN above the interface has its addresses and GIDs
    owner = None if addresses else gid_owner(netdev, table) or (netdev and master_of(source, net, netdev))
    if owner:
        addresses, ipv4_by = known_addresses(interface_of(network, owner), network, owner, table)
    netdev_mtu = source.number(net + "/mtu") or (shown["mtu"] if shown else None)
    rdma_mtu, rdma_mtu_by = tool.get("rdma_mtu"), "a tool"
    if rdma_mtu is None and state == "ACTIVE":
        rdma_mtu, rdma_mtu_by = logic.rdma_mtu_of(netdev_mtu), "netdev MTU"
    gid = logic.choose_gid(owner or netdev, addresses, table)
    facts: dict[str, Any] = {
        "name": name,
        "netdev": netdev,
        "netdev_by": netdev_by,
        "address_netdev": owner,
        "bonded": owner is not None and is_bond(owner, netdev, source.exists(f"{NET}/{owner}/bonding")),
        "link_layer": source.value(ports + "/link_layer") or tool.get("link_layer"),
        "chip": chip,
        "chip_guid": f"{system_guid:016x}" if system_guid else None,
        "port": number,
        "port_by": port_by,
        "state": state,
        "netdev_up": netdev_up(source, net, shown["up"] if shown else None),
        "netdev_enabled": netdev_enabled(source, net, shown.get("enabled") if shown else None),
        "phys_state": physical_state(source.value(ports + "/phys_state") or tool.get("phys_state")),
        "rate_gbps": rate if state == "ACTIVE" else None,
        "netdev_mtu": netdev_mtu,
        "rdma_mtu": rdma_mtu,
        "rdma_mtu_by": rdma_mtu_by if rdma_mtu else None,
        "ipv4": gid["ipv4"],
        "ipv4_by": ipv4_by if gid["ipv4"] else None,
        "addresses": gid["addresses"],
        "ipv4_known": addresses is not None,
        "netplan_file": netplan_file(network, owner) or netplan_file(network, netdev),
        "netplan_known": network.get("netplan") is not None,
        "gid_known": table is not None,
        "gid_entries": len(table) if table is not None else None,
        "gid_index": gid["gid_index"],
        "gid_ipv4": gid["gid_ipv4"],
        "gid_reason": gid["gid_reason"],
        "gid_index_link_local": logic.link_local_index(table or []),
        "pcie": read_pcie(source, name, pci),
        "pci": pci,
        "iommu": iommu_type(source, name, pci),
        "temperature_c": temperature(source, name, pci),
        "firmware": source.value(base + "/fw_ver") or tool.get("firmware"),
        "board_id": source.value(base + "/board_id") or tool.get("board_id"),
        "counters": read_counters(source, ports, netdev),
    }
    rate_reason = rate_reason or f"ports/{port}/rate could not be read"
    no_state = f"ports/{port}/state could not be read"
    idle = no_state if state is None else "the link is not active"
    no_netplan = "no file in /etc/netplan names the interface" if facts["netplan_known"] else NO_NETPLAN
    reasons = {
        "chip_guid": "no system image GUID",
        "netdev": "no interface has the same PCI function",
        "chip": "no phys_switch_id and no system image GUID",
        "port": "no phys_port_name, no GUIDs and no PCI function",
        "state": no_state,
        "phys_state": f"ports/{port}/phys_state could not be read",
        "link_layer": f"ports/{port}/link_layer could not be read",
        "rate_gbps": rate_reason if state == "ACTIVE" else idle,
        "netdev_up": "the carrier of the interface could not be read",
        "netdev_enabled": "neither flags nor carrier of the interface could be read",
        "netdev_mtu": "the MTU of the interface could not be read",
        "rdma_mtu": "the MTU of the interface is not known" if state == "ACTIVE" else idle,
        "netplan_file": no_netplan,
        "ipv4": gid["gid_reason"]
        if addresses == [] and gid["gid_reason"]
        else "the addresses of the interface could not be read",
        "gid_index": gid["gid_reason"],
        "gid_entries": logic.NO_TABLE,
        "gid_index_link_local": "the GID table shows no RoCE v2 entry of fe80",
        "pcie": "current_link_speed and current_link_width could not be read",
        "pci": "no device link",
        "iommu": "the type of the IOMMU group could not be read",
        "temperature_c": "no hwmon of the device could be read",
        "firmware": "fw_ver could not be read",
        "board_id": "board_id could not be read",
    }
    for item in facts["addresses"]:
        if item["gid_index"] is None:
            why = logic.NO_TABLE if table is None else "the GID table has no RoCE v2 entry of it"
            missing[f"{key}.addresses.{item['ipv4']}.gid_index"] = why
    missing.update({key + "." + item: why for item, why in reasons.items() if facts[item] is None and why})
    return facts
