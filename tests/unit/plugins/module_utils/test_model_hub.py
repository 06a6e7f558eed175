# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""A hub of this test's own: the tree, ranges, redirections to another host, pages, refusals."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from ansible_collections.gb10.serving.plugins.module_utils import _model_hub
from ansible_collections.gb10.serving.plugins.module_utils._model import inspect
from ansible_collections.gb10.serving.plugins.module_utils._model_hub import Hub, cache_directory, inspect_id
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils.test_model import INDEX, shard_name, write_model
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.memory_models import CONFIGS

MODEL = "acme/Tiny-MoE"


class Server:
    """Serves one folder as the model acme/Tiny-MoE, two files a page; large files come from a second address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.refuse = 0
        self.ranges = True
        self.seen: list[tuple[str, str, str | None, int]] = []  # host, path, Authorization, bytes sent
        handler = self._handler()
        self.hub = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.store = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        for server in (self.hub, self.store):
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.hub.server_port}"

    def close(self) -> None:
        for server in (self.hub, self.store):
            server.shutdown()
            server.server_close()

    def tree(self, page: int) -> tuple[list[dict[str, Any]], bool]:
        entries: list[dict[str, Any]] = [{"type": "directory", "path": "sub", "size": 0}]
        for path in sorted(self.folder.iterdir()):
            entry: dict[str, Any] = {"type": "file", "path": path.name, "size": path.stat().st_size}
            if path.suffix == ".safetensors":
                entry["lfs"] = {"oid": hashlib.sha256(path.read_bytes()).hexdigest(), "size": entry["size"]}
            entries.append(entry)
        return entries[2 * page : 2 * page + 2], len(entries) > 2 * page + 2

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_args: Any) -> None:
                pass

            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                content, status, headers = outer.answer(self.server is outer.hub, parts.path, parts.query, self.headers)
                outer.seen.append((self.headers["Host"], parts.path, self.headers["Authorization"], len(content)))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        return Handler

    def answer(self, hub: bool, path: str, query: str, headers: Any) -> tuple[bytes, int, dict[str, str]]:
        if self.refuse:
            return b"", self.refuse, {}
        if path == f"/api/models/{MODEL}/tree/main":
            page = int(query.rpartition("page=")[2]) if "page=" in query else 0
            entries, more = self.tree(page)
            link = {"Link": f'<{self.endpoint}{path}?recursive=true&page={page + 1}>; rel="next"'} if more else {}
            return json.dumps(entries).encode(), 200, link
        name = unquote(path).removeprefix(f"/{MODEL}/resolve/main/")
        if not (self.folder / name).is_file() or name == path:
            return b"", 404, {}
        if hub and name.endswith(".safetensors"):
            return b"", 302, {"Location": f"http://localhost:{self.store.server_port}{path}"}
        content = (self.folder / name).read_bytes()
        wanted = headers["Range"]
        if wanted and self.ranges:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            return content[int(first) : int(last) + 1], 206, {}
        return content, 200, {}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("HF_TOKEN", "HF_TOKEN_PATH", "HF_ENDPOINT", "HF_HUB_CACHE", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    served = Server(write_model(tmp_path / "served"))
    yield served
    served.close()


def test_a_hub_says_what_the_directory_says(server: Server) -> None:
    there, here = inspect(Hub(MODEL, endpoint=server.endpoint)), inspect(str(server.folder))
    assert there["complete"] is True
    assert there.pop("path") == f"{server.endpoint}/{MODEL}"
    here.pop("path")
    assert there == here


def test_the_weights_are_not_fetched(server: Server) -> None:
    with (server.folder / shard_name(1, 2)).open("r+b") as stream:
        stream.truncate(50_000_000)
    found = inspect(Hub(MODEL, endpoint=server.endpoint))
    assert [p.split(":")[0] for p in found["problems"]] == [f"{shard_name(1, 2)} is too long"]
    assert sum(sent for _host, _path, _token, sent in server.seen) < 1_000_000


def test_a_long_header_takes_a_second_range(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_model_hub, "_FIRST_RANGE", 16)
    assert inspect(Hub(MODEL, endpoint=server.endpoint))["problems"] == []


def test_the_token_goes_to_the_hub_only(server: Server) -> None:
    inspect(Hub(MODEL, endpoint=server.endpoint, token="hf_secret"))
    by_host = {(host.partition(":")[0], token) for host, _path, token, _sent in server.seen}
    assert by_host == {("127.0.0.1", "Bearer hf_secret"), ("localhost", None)}


def test_the_stored_token_is_used(server: Server, tmp_path: Path) -> None:
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text("hf_stored\n")
    inspect(Hub(MODEL, endpoint=server.endpoint))
    assert server.seen[0][2] == "Bearer hf_stored"


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "accept the model's terms"), (403, "set HF_TOKEN"), (404, "no such model"), (503, "Try again later")],
)
def test_a_refusal_is_explained(server: Server, status: int, words: str) -> None:
    server.refuse = status
    found = inspect(Hub(MODEL, endpoint=server.endpoint))
    (problem,) = found["problems"]
    assert found["exists"] is False
    assert words in problem
    assert problem.startswith(f"{MODEL} at {server.endpoint}")


def test_a_server_without_ranges_is_named_and_sends_nothing_large(server: Server) -> None:
    server.ranges = False
    (server.folder / "config.json").write_text(json.dumps(CONFIGS["tiny"]))
    found = inspect(Hub(MODEL, endpoint=server.endpoint))
    assert "answers 200 to a request for a range" in found["problems"][0]
    assert found["tensors"]["source"] == "config.json"  # what config.json tells is still told


@pytest.mark.parametrize("name", ["", "Tiny", "../etc/passwd", "a/b/c", "http://x/y", "acme/Ti ny"])
def test_an_id_that_is_none(server: Server, name: str) -> None:
    (problem,) = inspect(Hub(name, endpoint=server.endpoint))["problems"]
    assert "is no model id; expected ORGANISATION/NAME" in problem
    assert server.seen == []


def test_offline_it_says_so(server: Server) -> None:
    server.close()
    (problem,) = inspect_id(MODEL, None, server.endpoint, None)["problems"]
    assert "cannot be reached" in problem
    assert "Give the directory of a model" in problem


def in_cache(server: Server, *without: str) -> Path:
    entry = Path(cache_directory(MODEL))
    snapshot = entry / "snapshots" / "c0ffee"
    shutil.copytree(server.folder, snapshot, ignore=shutil.ignore_patterns(*without))
    (entry / "refs").mkdir()
    (entry / "refs" / "main").write_text("c0ffee")
    return snapshot


def test_a_whole_copy_in_the_cache_needs_no_hub(server: Server) -> None:
    snapshot = in_cache(server)
    assert inspect_id(MODEL, None, server.endpoint, None)["path"] == str(snapshot)
    assert server.seen == []


def test_half_a_copy_in_the_cache_serves_offline_only(server: Server) -> None:
    snapshot = in_cache(server, "*.safetensors", INDEX)
    assert inspect_id(MODEL, None, server.endpoint, None)["path"] == f"{server.endpoint}/{MODEL}"
    server.close()
    assert inspect_id(MODEL, None, server.endpoint, None)["path"] == str(snapshot)
