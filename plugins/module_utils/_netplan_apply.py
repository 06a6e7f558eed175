# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Writes one netplan file so that the old state comes back by itself unless the change is confirmed."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

from . import _netplan

#: (argv) -> (rc, stdout, stderr)
Runner = Callable[[list[str]], tuple[int, str, str]]

# It outlives the module and the connection. Whoever renames the mark first decides: the module confirms, or this
# puts the old file back. Arguments: seconds, mark, file, backup or nothing, command and its arguments.
WATCHDOG = """
left=$1 mark=$2 file=$3 backup=$4
shift 4
while [ "$left" -gt 0 ]; do
    sleep 1
    [ -e "$mark" ] || exit 0
    left=$((left - 1))
done
mv "$mark" "$mark.expired" 2>/dev/null || exit 0
if [ -n "$backup" ]; then cp -p "$backup" "$file.back" && mv "$file.back" "$file"; else rm -f "$file"; fi
"$@"
"""


def read_files(root: str, folder: str, ends: str) -> dict[str, str]:
    """The texts of the files in a folder below root, by the path that they have there."""
    found = {}
    try:
        file_names = sorted(os.listdir(root.rstrip("/") + folder))
    except OSError:
        return {}
    for name in file_names:
        if name.endswith(ends):
            try:
                with open(f"{root.rstrip('/')}{folder}/{name}", encoding="utf-8", errors="replace") as stream:
                    found[f"{folder}/{name}"] = stream.read()
            except OSError:
                continue
    return found


def default_routes(route: str, route6: str) -> set[str]:
    """Interfaces that a default route leaves by, from /proc/net/route and /proc/net/ipv6_route."""
    found = set()
    for line in route.splitlines():
        cells = line.split()
        if len(cells) > 7 and cells[1] == cells[7] == "00000000":
            found.add(cells[0])
    for line in route6.splitlines():
        cells = line.split()
        if len(cells) > 9 and cells[0] == "0" * 32 and cells[1] == "00" and cells[9] != "lo":
            found.add(cells[9])
    return found


def login_addresses(proc: str = "/proc", start: int | None = None) -> set[str]:
    """The addresses of this machine that the ssh sessions above this process came in by; sudo hides the variable."""
    found: set[str] = set()
    pid = os.getpid() if start is None else start
    for _step in range(64):
        try:
            with open(f"{proc}/{pid}/environ", "rb") as stream:
                environ = stream.read().split(b"\0")
            with open(f"{proc}/{pid}/stat", encoding="utf-8", errors="replace") as stream:
                parent = int(stream.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        for entry in environ:
            words = entry.decode("utf-8", "replace").split()
            if entry.startswith(b"SSH_CONNECTION=") and len(words) == 4:
                found.add(words[2].partition("%")[0])
        if parent <= 1:
            break
        pid = parent
    return found


def management(
    interfaces: Sequence[Mapping[str, object]], routes: set[str], logins: set[str], given: Sequence[str]
) -> dict[str, str]:
    """Interfaces that must not be touched, with the reason."""
    found = dict.fromkeys(sorted(routes), "carries the default route")
    for entry in interfaces:
        name, items = str(entry["name"]), entry.get("ipv4")
        plain = {str(item).partition("/")[0] for item in items} if isinstance(items, list) else set()
        if plain & (logins | set(given)) or name in given:
            found[name] = "carries the connection that Ansible comes in by"
    return found


def write(path: str, content: str) -> None:
    """Put the file in place in one step, readable by root only."""
    fresh = path + ".new"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(fresh, path)


class Trial:
    """A changed file that is on trial until it is confirmed or taken back."""

    def __init__(self, path: str, state: str, command: list[str], seconds: int) -> None:
        self.path, self.command = path, command
        self.mark = f"{state}/gb10-netplan-pending"
        self.seconds = seconds
        self.backup = ""

    def begin(self, content: str) -> None:
        """Keep the old file, start the watchdog, then write: from here on the old state comes back by itself."""
        os.makedirs(os.path.dirname(self.mark), exist_ok=True)
        # An exclusive mark: two trials at once would take each other back.
        os.close(os.open(self.mark, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        if os.path.exists(self.path):
            self.backup = f"{self.path}.{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.bak"
            with open(self.path, encoding="utf-8", errors="replace") as stream:
                write(self.backup, stream.read())
        # Not run_command: it waits for the end of what it starts, and this has to outlive the module.
        subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
            ["/bin/sh", "-c", WATCHDOG, "gb10-netplan", str(self.seconds), self.mark, self.path, self.backup]
            + self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            close_fds=True,
            cwd="/",
        )
        write(self.path, content)

    def confirm(self) -> bool:
        """Keep the change; False when the watchdog was faster."""
        return self._claim("confirmed")

    def undo(self, run: Runner) -> bool:
        """Put the old state back now; False when the watchdog already does."""
        if not self._claim("undone"):
            return False
        if self.backup:
            with open(self.backup, encoding="utf-8", errors="replace") as stream:
                write(self.path, stream.read())
        else:
            os.unlink(self.path)
        run(self.command)
        return True

    def _claim(self, word: str) -> bool:
        mine = f"{self.mark}.{word}"
        try:
            os.rename(self.mark, mine)
        except OSError:
            return False
        os.unlink(mine)
        return True


def wait_for_peers(run: Runner, ping: str, peers: Sequence[tuple[str, str]], seconds: float) -> list[tuple[str, str]]:
    """Those of the peers that did not answer in time on their interface; the others need not answer twice."""
    end = time.monotonic() + seconds
    missing = list(peers)
    while missing:
        missing = [peer for peer in missing if run([ping, "-c", "1", "-W", "1", "-I", *peer])[0] != 0]
        if not missing or time.monotonic() >= end:
            break
        time.sleep(0.5)
    return missing


def running_ranks(run: Runner, docker: str | None) -> tuple[list[str], str]:
    """Containers of any deployment of this collection that run here, or why they are not known."""
    if docker is None:
        return [], ""
    rc, out, err = run([docker, "ps", "--filter", "label=gb10.serving/rank", "--format", "{{.Names}}"])
    if rc == 0:
        return out.split(), ""
    text = (err or out).strip()
    if re.search(r"cannot connect|is the docker daemon running|connection refused", text, re.IGNORECASE):
        return [], ""
    return [], text[-300:] or f"'docker ps' ended with {rc}"


def interfaces_named(decision: _netplan.Decision) -> str:
    return ", ".join(f"{netdev} {address}" for netdev, address in decision.addresses.items())
