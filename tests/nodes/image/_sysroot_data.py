# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""What a GB10 shows and a PC does not: values as real machines print them; no serial numbers, placeholder GUIDs."""

from __future__ import annotations

from dataclasses import dataclass

DRIVER = "580.159.03"
CUDA = "13.0"
KERNEL = "6.17.0-1021-nvidia"

FILES: dict[str, str] = {
    "sys/class/dmi/id/sys_vendor": "NVIDIA",
    "sys/class/dmi/id/product_name": "NVIDIA_DGX_Spark",
    "sys/class/dmi/id/product_family": "DGX Spark",
    "sys/class/dmi/id/product_version": "A.7",
    "sys/class/dmi/id/bios_version": "5.36_0ACUM023",
    "sys/class/dmi/id/bios_date": "12/25/2025",
    "etc/dgx-release": (
        'DGX_NAME="DGX Spark"\n'
        'DGX_PRETTY_NAME="NVIDIA DGX Spark"\n'
        'DGX_SWBUILD_DATE="2025-09-10-13-50-03"\n'
        'DGX_SWBUILD_VERSION="7.2.3"\n'
        'DGX_COMMIT_ID="833b4a7"\n'
        'DGX_PLATFORM="DGX Server for KVM"\n'
        "\n"
        'DGX_OTA_VERSION="7.5.0"\n'
        'DGX_OTA_DATE="Thu Jun 18 17:40:28 EDT 2026"'
    ),
    "etc/fastos-release": 'NAME="DGX SPARK FASTOS"\nVERSION="1.105.17"\nBUILD_TYPE="customer"',
    "etc/os-release": (
        'PRETTY_NAME="Ubuntu 24.04.4 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\n'
        'VERSION="24.04.4 LTS (Noble Numbat)"\nVERSION_CODENAME=noble\nID=ubuntu\nID_LIKE=debian'
    ),
    "proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {DRIVER}",
    "sys/bus/pci/devices/000f:01:00.0/vendor": "0x10de",
    "sys/bus/pci/devices/000f:01:00.0/device": "0x2e12",
    "sys/bus/pci/devices/000f:01:00.0/current_link_speed": "2.5 GT/s PCIe",
    "sys/bus/pci/devices/000f:01:00.0/current_link_width": "1",
    # nvidia-smi gives no memory figures on GB10; per-process figures work, here without any process.
    "commands/nvidia-smi-query.csv": (
        f"0, NVIDIA GB10, GPU-00000000-0000-0000-0000-000000000000, {DRIVER}, 0, 0, 33, 4.12, [N/A], 208, [N/A], [N/A]"
    ),
    "commands/nvidia-smi-query-gpu.csv": (
        "memory.total [MiB], memory.used [MiB], memory.free [MiB], utilization.gpu [%], power.draw [W], "
        "temperature.gpu\n[N/A], [N/A], [N/A], 0 %, 4.12 W, 33"
    ),
    "commands/nvidia-smi-query-index-name-mem.csv": (
        "index, name, memory.total [MiB], memory.free [MiB]\n0, NVIDIA GB10, [N/A], [N/A]"
    ),
    "commands/nvidia-smi-query-name-driver-memtotal.csv": f"NVIDIA GB10, {DRIVER}, [N/A]",
    "commands/nvidia-smi-query-compute-apps.csv": "",
    "commands/nvidia-smi.txt": (
        "+-----------------------------------------------------------------------------------------+\n"
        f"| NVIDIA-SMI {DRIVER}             Driver Version: {DRIVER}     CUDA Version: {CUDA}     |\n"
        "+-----------------------------------------+------------------------+----------------------+\n"
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
        "|                                         |                        |               MIG M. |\n"
        "|=========================================+========================+======================|\n"
        "|   0  NVIDIA GB10                    On  |   0000000F:01:00.0 Off |                  N/A |\n"
        "| N/A   33C    P8              4W /  N/A  | Not Supported          |      0%      Default |\n"
        "|                                         |                        |                  N/A |\n"
        "+-----------------------------------------+------------------------+----------------------+\n"
        "\n"
        "+-----------------------------------------------------------------------------------------+\n"
        "| Processes:                                                                              |\n"
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
        "|        ID   ID                                                               Usage      |\n"
        "|=========================================================================================|\n"
        "|  No running processes found                                                             |\n"
        "+-----------------------------------------------------------------------------------------+"
    ),
    "commands/uname-a.txt": (
        f"Linux rehearsal {KERNEL} #21-Ubuntu SMP PREEMPT_DYNAMIC Wed May 27 19:14:05 UTC 2026 aarch64 aarch64 "
        "aarch64 GNU/Linux"
    ),
}


@dataclass(frozen=True)
class Function:
    """One PCI function of the ConnectX-7: a netdev and an RDMA device."""

    hca: str
    netdev: str
    bus: str
    port: str
    guid_offset: int
    cabled: bool


FUNCTIONS = (
    Function("rocep1s0f0", "enp1s0f0np0", "0000:01:00.0", "p0", 0, True),
    Function("rocep1s0f1", "enp1s0f1np1", "0000:01:00.1", "p1", 1, False),
    Function("roceP2p1s0f0", "enP2p1s0f0np0", "0002:01:00.0", "p0", 4, True),
    Function("roceP2p1s0f1", "enP2p1s0f1np1", "0002:01:00.1", "p1", 5, False),
)

PCI_FILES = {
    "vendor": "0x15b3",
    "device": "0x1021",
    "current_link_speed": "32.0 GT/s PCIe",
    "current_link_width": "4",
    "max_link_speed": "32.0 GT/s PCIe",
    "max_link_width": "16",
}
HCA_FILES = {"fw_ver": "28.45.4028", "board_id": "NVD0000000087", "hca_type": "MT4129", "node_type": "1: CA"}
PORT_UP = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "200 Gb/sec (2X NDR)", "link_layer": "Ethernet"}
PORT_DOWN = {"state": "1: DOWN", "phys_state": "3: Disabled", "rate": "40 Gb/sec (4X QDR)", "link_layer": "Ethernet"}
GID_ENTRIES = 16
