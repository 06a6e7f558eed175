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

from ansible_collections.gb10.serving.plugins.module_utils._endpoint import Endpoint
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
    endpoint = Endpoint(address, engine.server_address[1], key, deadline=0.4)
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
        (
            "/v1/chat/completions",
            (200, {**ANSWER[1], "usage": {"completion_tokens": 0}}),
            "counts no token of the answer",
        ),
        ("/v1/chat/completions", (200, {**ANSWER[1], "usage": {"completion_tokens": 3}}), "no token of the prompt"),
        ("/v1/chat/completions", (200, {"choices": ANSWER[1]["choices"]}), "counts no token"),
    ],
)
def test_what_is_wrong_is_named(engine: Engine, path: str, answer: tuple[int, Any], words: str) -> None:
    engine.answers[path] = answer
    seen = probe(engine)
    assert not seen["ok"]
    assert words in seen["problem"]


@pytest.mark.parametrize("key", ["hush-hush\n", "hush hush", "hush\u20achush", "hush\x07hush", "hush-hush\r\n"])
def test_a_key_that_no_header_carries_is_named_and_not_shown(engine: Engine, key: str) -> None:
    seen = probe(engine, key=key)
    assert not seen["ok"] and seen["problem"].startswith("the API key ") and "gb10_server_api_key" in seen["problem"]
    assert "hush" not in str(seen) and engine.keys == []
    endpoint = Endpoint("127.0.0.1", engine.server_address[1], key, deadline=0.4)
    with pytest.raises(ValueError, match="the API key") as raised:
        endpoint.request("/health")
    assert "hush" not in str(raised.value)


def test_a_server_that_repeats_the_key_is_not_quoted(engine: Engine) -> None:
    engine.answers["/v1/models"] = (401, {"error": "no such key: hush-hush"})
    assert "hush" not in probe(engine, key="hush-hush")["problem"]


def test_nobody_listens() -> None:
    endpoint = Endpoint("127.0.0.1", 1, None, deadline=0.4)
    seen = endpoint_info.probe(endpoint, "m", "Hi", 8)
    assert not seen["ok"]
    assert "did not answer" in seen["problem"]


def test_without_a_prompt_no_completion_is_asked(engine: Engine) -> None:
    engine.answers["/v1/chat/completions"] = (500, "")
    assert probe(engine, prompt="")["ok"]


def event(text: str | None = None, **more: Any) -> str:
    body = {"choices": [{"delta": {"content": text}}] if text is not None else [], **more}
    return f"data: {json.dumps(body)}\n\n"


USAGE = {"prompt_tokens": 7, "completion_tokens": 3}
PIECES = [event(""), event("Hel"), event("l"), event("o"), event(usage=USAGE), "data: [DONE]\n\n"]


class Streaming(Handler):
    """Answers a streamed completion piece by piece; a number between the pieces is a pause."""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not asked.get("stream"):
            self.do_GET()
            return
        assert asked["stream_options"] == {"include_usage": True}
        self.send_response(200)
        self.end_headers()
        for piece in self.server.answers["stream"]:
            if isinstance(piece, str):
                self.wfile.write(piece.encode())
            else:
                self.server.hang.wait(piece)


def streamed(engine: Engine, *pieces: str | float) -> dict[str, Any]:
    engine.RequestHandlerClass = Streaming
    engine.answers["stream"] = pieces  # type: ignore[assignment]
    endpoint = Endpoint("127.0.0.1", engine.server_address[1], None, deadline=0.6)
    return endpoint_info.probe(endpoint, "m", "Hi", 8, streamed=True)


def test_a_stream_is_measured(engine: Engine) -> None:
    seen = streamed(engine, PIECES[0], 0.2, PIECES[1], 0.1, *PIECES[2:])
    assert seen["ok"], seen["problem"]
    found = seen["completion"]["streamed"]
    assert (found["text"], found["pieces"], found["completion_tokens"]) == ("Hello", 3, 3)
    assert 0.2 <= found["time_to_first_token"] < 0.5
    assert found["prefill_tokens_per_second"] == pytest.approx(7 / found["time_to_first_token"], rel=0.02)
    assert 4 <= found["decode_tokens_per_second"] <= 20


def test_one_piece_shows_no_rate(engine: Engine) -> None:
    found = streamed(engine, event("Hello"), *PIECES[4:])["completion"]["streamed"]
    assert found["decode_tokens_per_second"] is None and found["completion_tokens"] == 3


@pytest.mark.parametrize(
    ("pieces", "words", "cause"),
    [
        ([*PIECES[:4], PIECES[5]], "streamed an answer and counts no token", "unknown"),
        ([event("x", error={"message": "EngineDeadError"})], "EngineDeadError", "unknown"),
        # Each piece comes in time, but not the whole.
        ([piece for part in PIECES for piece in (0.25, part)], "gave no answer within 0.6 s", "collective_timeout"),
    ],
)
def test_a_stream_that_is_no_proof(engine: Engine, pieces: list[Any], words: str, cause: str) -> None:
    seen = streamed(engine, *pieces)
    assert not seen["ok"] and words in seen["problem"] and seen["cause"] == cause


@pytest.mark.parametrize(("holder", "cause"), [("py (process 7)", "port_in_use"), (None, "unknown")])
def test_a_stale_container_is_no_proof(engine: Engine, holder: str | None, cause: str) -> None:
    listener = {"own": False, "problem": "py (process 7) listens on port 1, not container m", "holder": holder}
    endpoint = Endpoint("127.0.0.1", engine.server_address[1], None, deadline=0.4)
    seen = endpoint_info.probe(endpoint, "m", "Hi", 8, listener=listener)
    assert not seen["ok"] and seen["cause"] == cause and "py (process 7)" in seen["problem"] and engine.keys == []


def test_another_server_has_the_cause_of_a_taken_port(engine: Engine) -> None:
    engine.answers["/v1/models"] = (200, {"data": [{"id": "other"}]})
    assert probe(engine)["cause"] == "port_in_use"
    engine.answers["/v1/models"] = (401, {})
    assert probe(engine)["cause"] is None
