# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""The probe against a real HTTP server on the loopback that answers as an engine does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.modules import endpoint_info

MODELS = (200, {"data": [{"id": "m"}]})
ANSWER = (
    200,
    {
        "choices": [{"message": {"role": "assistant", "content": "Hello."}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    },
)


class Engine(ThreadingHTTPServer):
    answers: dict[str, tuple[int, Any]]
    keys: list[str | None]
    hang: threading.Event


class Handler(BaseHTTPRequestHandler):
    server: Engine

    def do_GET(self) -> None:
        self.server.keys.append(self.headers.get("Authorization"))
        status, body = self.server.answers[self.path]
        if status == 0:
            self.server.hang.wait(5)
            return
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def engine() -> Iterator[Engine]:
    server = Engine(("127.0.0.1", 0), Handler)
    server.answers = {"/health": (200, ""), "/v1/models": MODELS, "/v1/chat/completions": ANSWER}
    server.keys, server.hang = [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.hang.set()
    server.shutdown()
    thread.join()
    server.server_close()


def probe(engine: Engine, prompt: str = "Hi", key: str | None = None, address: str = "127.0.0.1") -> dict[str, Any]:
    endpoint = endpoint_info.Endpoint(address, engine.server_address[1], key, deadline=0.4)
    return endpoint_info.probe(endpoint, "m", prompt, 8)


def test_good(engine: Engine) -> None:
    seen = probe(engine, key="k")
    assert seen["ok"] and seen["healthy"] and seen["problem"] is None
    assert seen["completion"]["text"] == "Hello."
    assert seen["completion"]["completion_tokens"] == 3
    assert engine.keys == ["Bearer k"] * 3


def test_an_address_that_means_all_is_asked_on_the_loopback(engine: Engine) -> None:
    assert probe(engine, address="0.0.0.0")["ok"]


def test_reasoning_alone_is_an_answer_too(engine: Engine) -> None:
    message = {"role": "assistant", "content": None, "reasoning_content": "Let me think"}
    engine.answers["/v1/chat/completions"] = (200, {**ANSWER[1], "choices": [{"message": message}]})
    assert probe(engine)["completion"]["text"] == "Let me think"


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        ("/health", (503, ""), "/health answered 503"),
        ("/v1/models", (401, {"error": "x"}), "check gb10_server_api_key"),
        ("/v1/models", (200, {"data": [{"id": "other"}]}), "serves other. Expected: m"),
        ("/v1/models", (200, {"nothing": 1}), "did not answer as expected"),
        ("/v1/chat/completions", (500, {"error": "EngineDeadError"}), "EngineDeadError"),
        ("/v1/chat/completions", (0, None), "gave no answer within 0.4 s"),
        ("/v1/chat/completions", (200, {**ANSWER[1], "usage": {"completion_tokens": 0}}), "with no token"),
    ],
)
def test_what_is_wrong_is_named(engine: Engine, path: str, answer: tuple[int, Any], words: str) -> None:
    engine.answers[path] = answer
    seen = probe(engine)
    assert not seen["ok"]
    assert words in seen["problem"]


def test_nobody_listens() -> None:
    endpoint = endpoint_info.Endpoint("127.0.0.1", 1, None, deadline=0.4)
    seen = endpoint_info.probe(endpoint, "m", "Hi", 8)
    assert not seen["ok"]
    assert "did not answer" in seen["problem"]


def test_without_a_prompt_no_completion_is_asked(engine: Engine) -> None:
    engine.answers["/v1/chat/completions"] = (500, "")
    assert probe(engine, prompt="")["ok"]
