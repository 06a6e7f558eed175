# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
"""Private: which machine this is. Serial numbers are never read into a fact."""

from __future__ import annotations

import os
import platform
import re
import sys
from typing import Any

from ._facts_source import Source

GB10_PCI_DEVICE = "2e12"
#: Parts of the RTX Spark, whatever the machine or a list of PCI names calls them.
OTHER_PCI_DEVICES = frozenset(["2e03", "2e06"])
PRODUCTS = re.compile(
    r"DGX[_ ]Spark|\bGB10\b|\bGX10\b|ZGX Nano|ThinkStation PGX|AI TOP ATOM|EdgeXpert|\bGN100\b|\b30KL[0-9A-Z]{6}\b",
    re.IGNORECASE,
)
DGX_KEYS = {
    "DGX_NAME": "name",
    "DGX_PRETTY_NAME": "pretty_name",
    "DGX_PLATFORM": "platform",
    "DGX_SWBUILD_VERSION": "build_version",
    "DGX_OTA_VERSION": "ota_version",
}
DMIDECODE_KEYWORDS = {
    "sys_vendor": "system-manufacturer",
    "product_name": "system-product-name",
    "product_family": "system-family",
    "product_version": "system-version",
    "bios_version": "bios-version",
}
_NVRM = re.compile(r"Kernel Module\b.*?\s([3-9][0-9]{2}\.[0-9]{2,3}(?:\.[0-9]{1,2})?)(?:\s|$)")


def parse_assignments(text: str, keys: frozenset[str]) -> dict[str, str]:
    """KEY=value lines, quoted or not, of the keys asked for; the last one wins. The file is never sourced."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        value = value.strip()
        if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        if equals and key in keys and value.strip():
            values[key] = value.strip()
    return values


def parse_dmidecode(text: str) -> dict[str, str]:
    """The fields of a dmidecode page, or of lines of one, that name the machine and its firmware."""
    wanted = {
        "Manufacturer": "sys_vendor",
        "Product Name": "product_name",
        "Family": "product_family",
        "Version": "product_version",
    }
    # lines without their headline: only the BIOS has a release date
    section = "BIOS" if "Release Date:" in text and "Product Name:" not in text else "System"
    values: dict[str, str] = {}
    for line in text.splitlines():
        head = re.match(r"^(BIOS|System|[A-Z][A-Za-z ]*?) (?:Information|Enclosure|Slot.*|Device.*)$", line)
        section = head.group(1) if head else section
        key, colon, value = line.strip().partition(":")
        name = "bios_version" if section == "BIOS" and key == "Version" else wanted.get(key)
        if colon and name and value.strip() and section in ("System", "BIOS") and key in wanted:
            values.setdefault(name, value.strip())
    return values


def parse_uname(text: str) -> tuple[str | None, str | None]:
    """(kernel release, machine) of `uname -a`, `uname -r` or /proc/version."""
    words = text.split()
    release = next((word for word in words if re.match(r"^[0-9]+\.[0-9]+\.[0-9]+", word)), None)
    machine = next((word for word in words if word in ("aarch64", "x86_64", "arm64")), None)
    return release, machine


def driver_version(text: str) -> str | None:
    """The driver version in /proc/driver/nvidia/version."""
    match = _NVRM.search(text)
    return match.group(1) if match else None


def decide(
    dmi: dict[str, str | None], dgx: dict[str, str], gpu: str | None, pci: list[str] | None
) -> tuple[bool | None, str | None]:
    """Is it a GB10, and by which evidence. The GPU counts first: an N1X part is no GB10 whatever the box is called."""
    if pci and GB10_PCI_DEVICE in pci:
        return True, "PCI device 10de:" + GB10_PCI_DEVICE
    other = next((item for item in pci or [] if item in OTHER_PCI_DEVICES), None)
    if other:
        return False, "PCI device 10de:" + other
    if gpu is not None:
        return "GB10" in gpu.upper().split(), "GPU name"
    if pci:
        return False, "PCI device 10de:" + pci[0]
    if "dgx spark" in (dmi.get("product_family") or "").lower().replace("_", " "):
        return True, "DMI product family"
    if any("dgx spark" in dgx.get(key, "").lower() for key in ("DGX_NAME", "DGX_PRETTY_NAME", "NAME")):
        return True, "/etc/dgx-release"
    for key in ("product_name", "product_version"):
        if PRODUCTS.search(dmi.get(key) or ""):
            return True, "DMI " + key.replace("_", " ")
    if PRODUCTS.search(dgx.get("DGX_PLATFORM", "")):
        return True, "/etc/dgx-release"
    if pci is not None and dmi.get("product_name"):
        return False, "DMI names another machine and there is no NVIDIA GPU on PCI"
    return None, None


def nvidia_pci_devices(source: Source) -> list[str] | None:
    """Device ids of the NVIDIA display functions on PCI; None when PCI cannot be read."""
    base = "/sys/bus/pci/devices"
    found = []
    seen = False
    for name in source.entries(base):
        vendor = source.value(f"{base}/{name}/vendor")
        seen = seen or vendor is not None
        if (vendor or "").lower() != "0x10de":
            continue
        kind = source.value(f"{base}/{name}/class")
        device = source.value(f"{base}/{name}/device")
        if device and (kind is None or kind.lower().startswith(("0x03", "0x12"))):
            found.append(device.lower().replace("0x", "", 1))
    for text in source.captured_texts(["lspci"]):
        lines = [
            line
            for line in text.lower().splitlines()
            if re.search(r"\b(?:3d|vga|display|03[0-9a-f]{2}:) |\[gb10\]", line)
        ]
        for line in lines:
            match = re.search(r"\b10de:([0-9a-f]{4})\b|nvidia .*\bdevice (2e[0-9a-f]{2})\b", line)
            if match or ("nvidia" in line and "[gb10]" in line):
                found.append((match.group(1) or match.group(2)) if match else GB10_PCI_DEVICE)
    # a list that was searched for another word shows nothing about the GPU
    seen = seen or (bool(source.captured_texts(["lspci"])) and not source.captured_texts(["lspci-grep", "lspci-d"]))
    return found if seen or found else None


def read_dmi(source: Source) -> dict[str, str | None]:
    """DMI strings as printed; files that hold serial numbers are not opened."""
    dmi: dict[str, str | None] = {}
    captured: dict[str, str] = {}
    for name, text in source.captured_named(["dmi", "dmidecode"]):
        if not name.startswith("dmidecode-s-"):
            captured = {**parse_dmidecode(text), **captured}
    for key in ("sys_vendor", "product_name", "product_family", "product_version", "bios_version"):
        value = source.value("/sys/class/dmi/id/" + key) or source.value("/sys/devices/virtual/dmi/id/" + key)
        if value is None and source.captured:
            names = ["dmidecode-s-" + DMIDECODE_KEYWORDS[key], "sys-class-dmi-id-" + key, key.replace("_", "-")]
            lines = source.command(names).text.strip().splitlines()
            value = (lines[0].strip() or None) if lines else captured.get(key)
        dmi[key] = value
    return dmi


def _release_file(source: Source, path: str, keys: frozenset[str]) -> dict[str, str]:
    text = source.read(path)
    if text is None:
        names = [path.strip("/").replace("/", "-"), os.path.basename(path), "cat-" + path.strip("/").replace("/", "-")]
        text = source.command(names).text
    return parse_assignments(text, keys)


def read_platform(source: Source, gpu: dict[str, Any], missing: dict[str, str]) -> dict[str, Any]:
    """The platform facts. gpu is what the GPU reader found."""
    dmi = read_dmi(source)
    dgx = _release_file(source, "/etc/dgx-release", frozenset(DGX_KEYS))
    fastos = _release_file(source, "/etc/fastos-release", frozenset(["NAME", "VERSION"]))
    system = _release_file(source, "/etc/os-release", frozenset(["PRETTY_NAME", "ID", "VERSION_ID"]))
    if source.captured:
        kernel, arch = parse_uname(
            " ".join(
                [
                    source.command(["uname-a", "uname", "proc-version"]).text,
                    source.command(["uname-r"]).text,
                    source.command(["uname-m"]).text,
                    source.read("/proc/version") or "",
                ]
            )
        )
        kernel = source.value("/proc/sys/kernel/osrelease") or kernel
        arch = source.value("/proc/sys/kernel/arch") or arch
    else:
        kernel, arch = os.uname().release, os.uname().machine
    cpus = len(re.findall(r"^processor\s*:", source.read("/proc/cpuinfo") or "", re.MULTILINE)) or None
    for text in source.captured_texts(["lscpu"]):
        match = re.search(r"^CPU\(s\):[ \t]+(\d{1,4})[ \t\r]*$", text, re.MULTILINE)
        cpus = cpus or (int(match.group(1)) if match else None)
    driver = driver_version(source.read("/proc/driver/nvidia/version") or "")
    for text in source.captured_texts(["proc-driver-nvidia-version", "nvidia-version"]):
        driver = driver or driver_version(text)
    driver = driver or source.value("/sys/module/nvidia/version") or gpu["driver"]
    is_gb10, evidence = decide(dmi, {**fastos, **dgx}, gpu["name"], nvidia_pci_devices(source))
    reasons = {
        "is_gb10": "neither DMI, /etc/dgx-release, PCI nor nvidia-smi says what this machine is",
        "vendor": "DMI has no sys_vendor",
        "product": "DMI has no product_name",
        "family": "DMI has no product_family",
        "os_release": "/etc/os-release could not be read",
        "kernel": "the tree holds no kernel release",
        "cpus": "/proc/cpuinfo could not be read",
        "arch": "the tree holds no machine type",
        "driver": "no NVIDIA driver is loaded or described",
        "cuda": missing.get("gpu.name") or "nvidia-smi printed no CUDA version",
        "fastos_version": "/etc/fastos-release is absent or names no version",
        "dgx_version": "/etc/dgx-release is absent or names no version",
        "bios_version": "DMI has no bios_version",
    }
    facts: dict[str, Any] = {
        "is_gb10": is_gb10,
        "evidence": evidence,
        "vendor": dmi["sys_vendor"],
        "product": dmi["product_name"],
        "family": dmi["product_family"],
        "bios_version": dmi["bios_version"],
        "os_release": system.get("PRETTY_NAME"),
        "os": {"id": system.get("ID"), "version_id": system.get("VERSION_ID")},
        "dgx": {short: dgx[key] for key, short in DGX_KEYS.items() if key in dgx},
        "dgx_version": dgx.get("DGX_OTA_VERSION") or dgx.get("DGX_SWBUILD_VERSION"),
        "fastos_version": fastos.get("VERSION"),
        "kernel": kernel,
        "arch": arch,
        "cpus": cpus,
        "driver": driver,
        "cuda": gpu["cuda"],
        "python": platform.python_version(),
        "python_executable": sys.executable,
    }
    for key, reason in reasons.items():
        if facts[key] is None:
            missing["platform." + key] = reason
    return facts
