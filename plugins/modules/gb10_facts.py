#!/usr/bin/python
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gb10_facts
short_description: Reads what a GB10 node is and what its links look like
version_added: 0.1.0
description:
  - Reads platform, unified memory, GPU processes, ConnectX-7 ports, addresses, Docker, containers and disk space
    in one run.
  - It only reads. What cannot be read is null, and RV(ansible_facts.gb10.missing) says why.
  - The readings are passive. A port whose readings are all fine is called C(unmeasured), because only a measurement
    shows its speed.
  - Serial numbers are never read into a fact.
  - A node that cannot be reached, has no usable Python or wants a sudo password is reported with one message that says
    what to do.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.facts_module
  - gb10.serving.attributes.action
options:
  gather_subset:
    description:
      - What to read. V(fabric) also returns RV(ansible_facts.gb10.network).
    type: list
    elements: str
    choices: [all, platform, memory, gpu, fabric, docker, storage, containers]
    default: [all]
  sysroot:
    description:
      - Read C(proc), C(sys) and C(etc) below this folder, and command outputs from its C(commands) folder, rather than
        this machine.
      - An output is named like its command, as in C(commands/ibdev2netdev.txt), C(ip-j-addr.txt), C(show_gids.txt),
        C(nvidia-smi.txt) or C(free-h.txt). Words after the name are allowed, and so are outputs beside the folders.
      - Links in the folder are followed inside it, and only regular files are opened.
      - Docker, containers, storage, listening ports and the Python are always those of this machine;
        RV(ansible_facts.gb10.live) names them.
      - A folder that does not exist is refused. An empty one is an answer in which everything is null, with reasons.
    type: path
    default: /
  storage_paths:
    description:
      - Paths whose free space and file system to return. They need not exist.
    type: list
    elements: path
    default: []
seealso:
  - module: gb10.serving.model_info
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Read everything
  gb10.serving.gb10_facts:
    storage_paths:
      - /home/spark/models
  become: true

- name: Show the links
  ansible.builtin.debug:
    var: ansible_facts['gb10']['fabric']['ports']

- name: Read the memory only
  gb10.serving.gb10_facts:
    gather_subset: [memory, gpu]

- name: Read a captured machine
  gb10.serving.gb10_facts:
    gather_subset: [platform, fabric]
    sysroot: /tmp/support-bundle
"""

RETURN = r"""
ansible_facts:
  description: The facts. Only the subsets asked for are present.
  returned: success
  type: dict
  contains:
    gb10:
      description: All facts of this collection.
      type: dict
      returned: success
      contains:
        platform:
          description:
            - What the machine is. C(is_gb10) is null when nothing says it; C(evidence) says by what it was decided.
            - C(dgx) is what C(/etc/dgx-release) says of build, update and platform, without the serial number.
          type: dict
          returned: when asked for
          sample:
            {is_gb10: true, evidence: GPU name, vendor: NVIDIA, product: NVIDIA_DGX_Spark, family: DGX Spark,
             bios_version: 5.36_0ACUM027, os_release: Ubuntu 24.04.4 LTS, os: {id: ubuntu, version_id: "24.04"},
             dgx: {name: DGX Spark, platform: DGX Server for KVM, build_version: 7.2.3, ota_version: 7.5.0},
             dgx_version: 7.5.0, fastos_version: 1.105.17, kernel: 6.17.0-1021-nvidia, arch: aarch64, cpus: 20,
             driver: 580.159.03, cuda: "13.0", python: 3.12.3, python_executable: /usr/bin/python3}
        memory:
          description:
            - The unified memory in bytes. C(driver_held_bytes) is what no category of C(/proc/meminfo) accounts for;
              C(driver_pools_bytes) is that without C(gpu_used_bytes), what GPU processes hold.
            - C(cpu_estimate_bytes) is what an ordinary process can get, C(cuda_upper_bound_bytes) the most that a CUDA
              process can get. C(vendor_estimate_bytes) is NVIDIA's way of counting, MemAvailable and SwapFree together,
              so on an idle node it is more than there is. The keys that end in C(_formula) say how each was worked out.
            - C(verdict) is one of C(roomy), C(page-cache-in-the-way), C(driver-keeps-freed-pools), C(in-use) and
              C(too-little-to-start). C(remedy) says what to do.
            - C(pressure) is C(high) when less than 8 GiB is available and swap is in use, C(some) when swap is
              not in use, else C(low). C(source) is where the figures come from.
          type: dict
          returned: when asked for
          sample:
            {total_bytes: 130660712448, available_bytes: 121411960832, free_bytes: 110680346624,
             cached_bytes: 9663676416, swap_total_bytes: 17179865088, swap_free_bytes: 17179865088, swap_used_bytes: 0,
             hugepages_bytes: 0, hugepages_free_bytes: 0, cma_total_bytes: 134217728, cma_free_bytes: 70983680,
             driver_held_bytes: 2147483648, driver_held_formula: MemTotal - (MemFree + ...), gpu_used_bytes: 18874368,
             driver_pools_bytes: 2128609280, cpu_estimate_bytes: 121411960832, cpu_estimate_formula: MemAvailable,
             cuda_upper_bound_bytes: 123540570112,
             cuda_upper_bound_formula: MemAvailable + driver_held - GPU processes,
             vendor_estimate_bytes: 138591825920, vendor_estimate_formula: MemAvailable + SwapFree, pressure: low,
             verdict: roomy, remedy: null, source: /proc/meminfo}
        gpu:
          description:
            - GPU name, count, load and processes with the bytes they hold. A GB10 reports no memory figures of its own,
              so C(memory_total_bytes) is null. C(complete) is false when the list of processes may lack some.
            - Of a process, C(type) is C(C) (compute) or C(G) (graphics), C(rss_bytes) what it holds beside the GPU's
              memory, and C(container_id) the container that it runs in, if any.
          type: dict
          returned: when asked for
          sample:
            {name: NVIDIA GB10, count: 1, bus_id: "0000000F:01:00.0", driver: 580.159.03, cuda: "13.0",
             temperature_c: 45, power_watts: 11.2, power_cap_watts: null, utilization_percent: 0,
             memory_total_bytes: null, nvidia_peermem: false, gpudirect_rdma: null, complete: true,
             processes: [{pid: 197277, name: "VLLM::Worker_TP0", type: C, used_bytes: 107610112000,
                          rss_bytes: 3982966784, container_id: 0a1b2c3d4e5f}]}
        fabric:
          description:
            - RDMA devices in C(hcas), and QSFP ports in C(ports). A port shows as two devices (twins).
            - C(rate_gbps) is null while the link is not active. C(gid_index) is the RoCE v2 entry of the interface's
              IPv4 address; when it is null, C(gid_reason) says why. C(gid_index_link_local) is that of its fe80
              address, and C(gid_entries) counts the used entries.
            - C(netdev_up) says whether the interface has a carrier, and C(netdev_enabled) whether it is set up at all.
            - C(ipv4) is the address in use, C(addresses) all of the interface. C(gid_ipv4) is the address that the GID
              table shows at C(gid_index), also where the prefix length is not known. C(ipv4_known), C(gid_known) and
              C(netplan_known) are false where null means not read. C(netplan_file) is the file that names the
              interface.
            - C(address_netdev) is the interface that has the address and the GIDs in place of C(netdev), such as a
              bridge or bond, and C(bonded) says that it is a bond. C(link_layer) is V(Ethernet) or V(InfiniBand).
            - What ends in C(_by) says by what a value was found. C(counters) holds what could be read, in bytes or
              counts.
            - When a bond or a VLAN above the interface has its addresses and GIDs, C(address_netdev) names it, and
              C(ipv4) and C(gid_index) are those of it; C(bonded) is true for a bond.
            - The C(verdict) of a port is one of C(set-down), C(no-link), C(unknown), C(twin-down), C(link-below-200),
              C(pcie-degraded), C(bonded), C(infiniband), C(twin-missing), C(twin-without-ipv4), C(twins-share-subnet),
              C(gid-missing) and C(unmeasured).
              C(findings) lists all that apply, and C(note) says what else to know about the port. C(name) is C(p0) or
              C(p1), behind the name of the chip when there are several.
            - C(cables) counts the ports with a link. C(notes) are for people, such as about a cable that was plugged in
              while the node ran.
            - The C(verdict) of the fabric is the worst of the ports with a link. It may also be C(no-nic) or
              C(nic-without-devices), with C(reason), or null when nothing could be read.
            - C(hotplug) says whether the cable hot-plug driver is there, which cables were plugged in later, and
              whether a NIC was seen or removed. Its parts are null when the kernel log could not be read.
          type: dict
          returned: when asked for
          sample:
            hcas:
              - {name: rocep1s0f0, netdev: enp1s0f0np0, netdev_by: device/net, chip: 0000005e00000001,
                 chip_guid: "0200000300000010", port: 0, port_by: phys_port_name, state: ACTIVE, phys_state: LinkUp,
                 netdev_up: true, netdev_enabled: true, rate_gbps: 200, netdev_mtu: 9000, rdma_mtu: 4096,
                 rdma_mtu_by: netdev MTU, ipv4: 192.168.200.11/24, ipv4_by: ip addr, ipv4_known: true,
                 addresses: [{ipv4: 192.168.200.11/24, gid_index: 3}], netplan_file: /etc/netplan/40-cx7.yaml,
                 netplan_known: true, gid_known: true, gid_entries: 4, gid_index: 3, gid_ipv4: 192.168.200.11,
                 gid_reason: null, gid_index_link_local: 1, pci: "0000:01:00.0", firmware: 28.45.4028,
                 pcie: {address: "0000:01:00.0", speed: 32.0 GT/s PCIe, width: 4, generation: 5, gbps: 126.03},
                 iommu: identity, temperature_c: 40.0, board_id: NVD0000000087, counters: {received_bytes: 100}}
            ports:
              - {name: p0, chip: 0000005e00000001, port: 0, hcas: [rocep1s0f0, roceP2p1s0f0], link: true,
                 verdict: unmeasured, findings: [unmeasured], note: null,
                 remedy: "All readings are fine, but only a measurement shows the speed. Run the check playbook."}
            verdict: unmeasured
            cables: 1
            notes: []
            reason: null
            hotplug: {driver: true, plugged_after_boot: [], plugged_ports: [], nic_seen: true, removed: false}
        network:
          description:
            - Interfaces with their IPv4 addresses, what netplan plans for them, the interface of the default route, and
              the TCP ports that somebody listens on. C(complete) is false when only some interfaces are known.
            - C(up) says whether there is a carrier, C(enabled) whether the interface is set up at all. C(from_netplan)
              marks one that only netplan speaks of.
          type: dict
          returned: with the subset fabric
          sample:
            interfaces: [{name: enp1s0f0np0, ipv4: [192.168.200.11/24], mtu: 9000, up: true, enabled: true}]
            complete: true
            default_interface: enP7s7
            netplan:
              - file: /etc/netplan/40-cx7.yaml
                mode: "600"
                interfaces:
                  enp1s0f0np0: {ipv4: [192.168.200.11/24], mtu: 9000, dhcp4: false, link_local_ipv4: false}
            listening_tcp_ports: [22]
            listeners: [{port: 22, pid: 812, name: sshd, container_id: null}]
        docker:
          description:
            - The Docker daemon. When it is not available, C(error) says why and what to do.
            - C(user_in_group) tells whether the user who logged in is a member of the group C(docker).
          type: dict
          returned: when asked for
          sample:
            {available: true, error: null, version: 28.3.3, storage_driver: overlay2, containerd_store: false,
             architecture: aarch64, root_dir: /var/lib/docker, root_free_bytes: 2199023255552, runtimes: [nvidia, runc],
             cdi_devices: [nvidia.com/gpu=all], nvidia: true, user: spark, user_in_group: true}
        storage:
          description: One entry for each of O(storage_paths).
          type: list
          elements: dict
          returned: when asked for
          sample:
            - {path: /home/spark/models, exists_path: /home/spark, filesystem: ext4, free_bytes: 2199023255552,
               total_bytes: 3936818806784, writable: true}
        containers:
          description: All containers, also stopped ones, with this collection's labels. Null without Docker.
          type: list
          elements: dict
          returned: when asked for
          sample:
            - {name: gb10-qwen35-rank0, id: 0a1b2c3d4e5f, labels: {gb10.serving/rank: "0"}, state: running,
               status: Up 2 hours, image: "vllm/vllm-openai:latest", ports: [8000]}
        live:
          description: What was asked for and describes this machine although O(sysroot) names a captured one.
          type: list
          elements: str
          returned: with O(sysroot)
          sample: [docker, network.listening_tcp_ports]
        missing:
          description: Why a fact is null, by its dotted name. Parts of lists go by their name, path, file or address.
          type: dict
          returned: always
          sample:
            fabric.hcas.rocep1s0f1.rate_gbps: the link is not active
"""

import socket
import sys

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils._facts import SUBSETS, gather, wanted_subsets
from ansible_collections.gb10.serving.plugins.module_utils._facts_source import sysroot_problem


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "gather_subset": {"type": "list", "elements": "str", "choices": ["all"] + SUBSETS, "default": ["all"]},
            "sysroot": {"type": "path", "default": "/"},
            "storage_paths": {"type": "list", "elements": "path", "default": []},
        },
        supports_check_mode=True,
    )
    if sys.version_info < (3, 10):  # noqa: UP036
        module.fail_json(
            msg=f"Python {sys.version.split()[0]} at {sys.executable} is too old. Expected Python 3.10 or newer.",
            python_version=sys.version.split()[0],
        )
    problem = sysroot_problem(module.params["sysroot"], socket.gethostname())
    if problem:
        module.fail_json(msg=problem)
    facts = gather(
        wanted_subsets(module.params["gather_subset"]), module.params["sysroot"], module.params["storage_paths"]
    )
    module.exit_json(changed=False, ansible_facts={"gb10": facts})


if __name__ == "__main__":
    main()
