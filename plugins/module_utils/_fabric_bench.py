# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the bandwidth of each rail and of all together, both ways, in a fixed time.
from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils import _fabric_stream as stream
from ansible_collections.gb10.serving.plugins.module_utils import _fabric_tools as tools
from ansible_collections.gb10.serving.plugins.module_utils._offer import Handler
from ansible_collections.gb10.serving.plugins.module_utils._wire import WireError, read_json, send_json

#: Seconds of one test. The tools count in whole seconds.
STREAM_SECONDS, TOOL_SECONDS = 0.8, 1
#: What a test takes beside its own seconds.
OVERHEAD = 0.4
TOOL_OVERHEAD = 1.0
#: Below this share of the best rate a test is repeated once: another load may have been in the way.
DOUBTFUL = 0.4

Result = dict[str, Any]


def free_port(address: str) -> int:
    with socket.create_server((address, 0)) as sock:
        return int(sock.getsockname()[1])


def _listening(port: int, seconds: float = 2.0) -> bool:
    """Whether somebody here listens on the port by now; asked of the kernel, since a connection would be the test."""
    wanted = f":{port:04X}"
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
                if any(line.split()[1].endswith(wanted) and line.split()[3] == "0A" for line in list(lines)[1:]):
                    return True
        time.sleep(0.02)
    return False


def _start(argv: list[str]) -> subprocess.Popen[str]:
    env = {**os.environ, "LC_ALL": "C"}
    return subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    )


def _finish(process: subprocess.Popen[str], seconds: float) -> tuple[str, int]:
    try:
        text, _none = process.communicate(timeout=seconds)
        return text, process.returncode
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise tools.ToolError(f"the tool did not end within {seconds:g} s") from error


class Answer:
    """The listening node's answers on one rail. What is run is built here; the wire only chooses."""

    def __init__(self, rail: dict[str, Any]) -> None:
        self.rail = rail

    def for_session(self, _session: str) -> Handler:
        return self.handle

    def handle(self, sock: socket.socket, request: dict[str, Any]) -> None:
        kind = request.get("do")
        if kind in ("take", "give"):
            stream.answer_stream(sock, request)
        elif kind == "serve":
            _serve(sock, self.rail, str(request.get("tool")))
        elif kind == "drive":
            _drive(sock, self.rail, int(request["port"]))


def _server_argv(rail: dict[str, Any], tool: str, port: int) -> list[str]:
    if tool == tools.RDMA_TOOL:
        return tools.perftest(rail["hca"], rail["gid_index"], port, TOOL_SECONDS)
    return tools.iperf3(rail["address"], port)


def _serve(sock: socket.socket, rail: dict[str, Any], tool: str) -> None:
    """Runs the tool's server until it ends, the other side hangs up, or the time is over."""
    port = free_port(rail["address"])
    process = _start(_server_argv(rail, tool, port))
    try:
        send_json(sock, {"port": port if _listening(port) else 0})
        end = time.monotonic() + TOOL_SECONDS + 5
        while process.poll() is None and time.monotonic() < end:
            if select.select([sock], [], [], 0.1)[0]:
                break
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _drive(sock: socket.socket, rail: dict[str, Any], port: int) -> None:
    """Sends by RDMA to the side that asked."""
    peer = str(sock.getpeername()[0])
    try:
        argv = tools.perftest(rail["hca"], rail["gid_index"], port, TOOL_SECONDS, peer)
        send_json(sock, {"bits": tools.read_perftest(*_finish(_start(argv), TOOL_SECONDS + 3))})
    except (tools.ToolError, OSError) as error:
        send_json(sock, {"error": str(error)})


def _with_tool(end: stream.End, tool: str, outward: bool) -> int:
    """One rail, one direction, by a tool."""
    rail = end.extra
    with stream.connect(end) as sock:
        sock.settimeout(TOOL_SECONDS + 4)
        if tool == tools.RDMA_TOOL and not outward:
            return _driven(sock, rail)
        send_json(sock, {"do": "serve", "tool": tool})
        port = int((read_json(sock) or {}).get("port", 0))
        if not port:
            raise tools.ToolError(f"{tool} did not start to listen on {end.peer}")
        if tool == tools.RDMA_TOOL:
            argv = tools.perftest(rail["hca"], rail["gid_index"], port, TOOL_SECONDS, end.peer)
            return tools.read_perftest(*_finish(_start(argv), TOOL_SECONDS + 3))
        argv = tools.iperf3_client(end.address, end.peer, port, TOOL_SECONDS, stream.STREAMS, outward)
        return tools.read_iperf3(_finish(_start(argv), TOOL_SECONDS + 3)[0])


def _driven(sock: socket.socket, rail: dict[str, Any]) -> int:
    port = free_port(rail["address"])
    process = _start(_server_argv(rail, tools.RDMA_TOOL, port))
    try:
        if not _listening(port):
            raise tools.ToolError(f"{tools.RDMA_TOOL} did not start to listen here")
        send_json(sock, {"do": "drive", "port": port})
        told = read_json(sock) or {}
        if "bits" not in told:
            raise tools.ToolError(str(told.get("error", "the peer closed the connection")))
        return int(told["bits"])
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def run_once(ends: list[stream.End], method: str, outward: bool) -> int:
    """Bits per second over these rails at once. WireError when there is no figure."""
    if method == "sockets":
        return stream.measure(ends, outward, STREAM_SECONDS)
    tool = tools.RDMA_TOOL if method == "rdma" else tools.TCP_TOOL
    rates: list[int] = []
    errors: list[str] = []

    def job(end: stream.End) -> Callable[[], int]:
        return lambda: _with_tool(end, tool, outward)

    stream.run_all([job(end) for end in ends], rates, errors)
    if errors or len(rates) < len(ends):
        raise tools.ToolError(errors[0] if errors else f"{tool} gave no figure on every rail")
    return sum(rates)


class Pair:
    """All tests between this node and one peer, within a number of seconds."""

    def __init__(self, host: str, ends: dict[int, stream.End], methods: list[str], seconds: float) -> None:
        self.host, self.ends, self.methods = host, ends, methods
        self.end = time.monotonic() + seconds
        self.seconds = seconds
        self.results: list[Result] = []

    def run(self) -> list[Result]:
        numbers = sorted(self.ends)
        plan = [([number], outward) for number in numbers for outward in (True, False)]
        if len(numbers) > 1:
            plan += [(numbers, True), (numbers, False)]
        self.results = [self._test(rails, outward) for rails, outward in plan]
        self._repeat()
        return self.results

    def _cost(self, method: str) -> float:
        return STREAM_SECONDS + OVERHEAD if method == "sockets" else TOOL_SECONDS + TOOL_OVERHEAD

    def _test(self, numbers: list[int], outward: bool) -> Result:
        result: Result = {
            "host": self.host,
            "rails": numbers,
            "direction": "to" if outward else "from",
            "bits_per_second": None,
            "method": None,
            "errors": {},
        }
        for method in self.methods:
            if self.end - time.monotonic() < self._cost(method):
                result["errors"][method] = f"no time was left of the {self.seconds:g} s for this pair"
                continue
            try:
                bits = run_once([self.ends[number] for number in numbers], method, outward)
            except (WireError, OSError) as error:
                result["errors"][method] = str(error)
                continue
            return dict(result, bits_per_second=bits, method=method)
        return result

    def _repeat(self) -> None:
        best = max((item["bits_per_second"] or 0 for item in self.results), default=0)
        for index, item in enumerate(self.results):
            bits, method = item["bits_per_second"], item["method"]
            if bits is None or bits >= DOUBTFUL * best or self.end - time.monotonic() < self._cost(method):
                continue
            with contextlib.suppress(WireError, OSError):
                again = run_once([self.ends[number] for number in item["rails"]], method, item["direction"] == "to")
                self.results[index] = dict(item, bits_per_second=max(bits, again))


def methods_for(ends: dict[int, stream.End], rdma: bool, here: dict[str, bool], there: dict[str, Any]) -> list[str]:
    """What to try in this order. A method needs its tool, and for RDMA the devices, at both ends."""
    found = []
    devices = all(tools.has_hca(end.extra) and end.extra.get("peer_hca") for end in ends.values())
    if rdma and devices and here["perftest"] and there.get("perftest"):
        found.append("rdma")
    if here["iperf3"] and there.get("iperf3"):
        found.append("iperf3")
    return [*found, "sockets"]


def measure(rails: list[dict[str, Any]], peers: list[dict[str, Any]], rdma: bool, seconds: float) -> list[Result]:
    """One peer after the other, so that no test disturbs another."""
    own = {rail["number"]: rail for rail in rails}
    here = {"perftest": tools.has_perftest(), "iperf3": tools.has_iperf3()}
    results: list[Result] = []
    for peer in peers:
        ends = {
            listener["number"]: stream.End(
                own[listener["number"]]["netdev"],
                own[listener["number"]]["address"],
                listener["address"],
                listener["port"],
                listener["token"],
                dict(own[listener["number"]], peer_hca=listener.get("hca")),
            )
            for listener in peer["listeners"]
            if listener["number"] in own
        }
        if ends:
            methods = methods_for(ends, rdma, here, peer.get("tools") or {})
            results += Pair(peer["host"], ends, methods, seconds).run()
    return results
