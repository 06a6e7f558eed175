# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: requests to an OpenAI compatible endpoint.
"""Requests that end: every one has a deadline for the whole of it, not only for each piece that arrives."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any

#: Addresses that mean "all": a client asks the loopback instead.
EVERYWHERE = {"0.0.0.0", "::", ""}

#: Bytes of an answer that are read at most.
MOST = 16 << 20

#: What a key may be made of, so that it fits into a header.
KEY_EXPECTED = "printable ASCII characters without blanks"


def key_problem(key: str) -> str:
    """What a key has in it that no header can carry, in words that do not show it; empty for a good one."""
    if key.endswith(("\n", "\r")) and key.rstrip("\r\n"):
        return "ends in a newline"
    if any(sign.isspace() for sign in key):
        return "has blanks or line breaks in it"
    if not key.isascii():
        return "has characters in it that are not ASCII"
    return "" if key.isprintable() else "has control characters in it"


class Endpoint:
    """One HTTP connection a request, so that a hung request cannot poison the next."""

    def __init__(self, address: str, port: int, api_key: str | None, deadline: float) -> None:
        self.address = "127.0.0.1" if address in EVERYWHERE else address
        self.port = port
        self.api_key = api_key
        self.deadline = deadline

    def request(self, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
        """Status and text of the answer.

        Raises:
            OSError, http.client.HTTPException: refused, closed or later than the deadline.
            ValueError: the API key is none.
        """
        status, lines = 0, []
        for status, line in self.lines(path, body):  # noqa: B007
            lines.append(line)
        return status, b"".join(lines).decode("utf-8", "replace")

    def lines(self, path: str, body: dict[str, Any] | None = None) -> Iterator[tuple[int, bytes]]:
        """The status with each line of the answer as it comes; an empty line for an empty answer.

        Raises:
            OSError, http.client.HTTPException: as for request().
        """
        end = time.monotonic() + self.deadline
        connection = http.client.HTTPConnection(self.address, self.port, timeout=self.deadline)
        headers = {"Content-Type": "application/json"}
        if self.api_key:
            # What http.client says of a header that it does not like would show the key.
            if wrong := key_problem(self.api_key):
                raise ValueError(f"the API key {wrong}; expected: {KEY_EXPECTED}")
            headers["Authorization"] = f"Bearer {self.api_key}"
        try:
            text = json.dumps(body) if body is not None else None
            connection.connect()
            wire = connection.sock
            connection.request("POST" if text else "GET", path, body=text, headers=headers)
            wire.settimeout(_left(end))
            response = connection.getresponse()
            yield response.status, b""
            size = 0
            while size < MOST and not response.isclosed():
                wire.settimeout(_left(end))
                line = response.readline()
                if not line:
                    return
                size += len(line)
                yield response.status, line
        finally:
            connection.close()


def _left(end: float) -> float:
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise TimeoutError("the deadline is over")
    return seconds


def body_of(model: str, prompt: str, max_tokens: int, streamed: bool) -> dict[str, Any]:
    """One chat completion at temperature 0."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
    }
    return {**body, "stream": True, "stream_options": {"include_usage": True}} if streamed else body


def complete(endpoint: Endpoint, model: str, prompt: str, max_tokens: int) -> dict[str, Any]:
    """The answer in one piece."""
    started = time.monotonic()
    status, text = endpoint.request("/v1/chat/completions", body_of(model, prompt, max_tokens, streamed=False))
    seconds = time.monotonic() - started
    if status != 200:
        raise ValueError(f"chat completion answered {status}: {text[-300:]}")
    answer = json.loads(text)
    usage = answer.get("usage") or {}
    tokens = usage.get("completion_tokens") or 0
    return {
        "prompt": prompt,
        "model": answer.get("model"),
        "text": words_of(answer["choices"][0]["message"]),
        "seconds": round(seconds, 3),
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": tokens,
        "tokens_per_second": round(tokens / seconds, 2) if seconds > 0 else None,
    }


def stream(endpoint: Endpoint, model: str, prompt: str, max_tokens: int) -> dict[str, Any]:
    """The answer piece by piece: when the first token came, and how fast the others did."""
    started = time.monotonic()
    first = last = None
    usage: dict[str, Any] = {}
    text, pieces, refused = "", 0, b""
    for status, line in endpoint.lines("/v1/chat/completions", body_of(model, prompt, max_tokens, streamed=True)):
        if status != 200:
            refused += line
            continue
        if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
            continue
        event = json.loads(line[5:])
        if event.get("error"):
            raise ValueError(f"the stream ended with {json.dumps(event['error'])[:300]}")
        usage = event.get("usage") or usage
        said = words_of((event.get("choices") or [{}])[0].get("delta") or {})
        if said:
            last = time.monotonic()
            first = first or last
            pieces += 1
            text += said
    if status != 200:
        raise ValueError(f"streamed chat completion answered {status}: {refused.decode('utf-8', 'replace')[-300:]}")
    tokens, prompted = usage.get("completion_tokens") or 0, usage.get("prompt_tokens")
    wait = first - started if first else None
    rest = last - first if first and last else 0.0
    return {
        "text": text,
        "pieces": pieces,
        "seconds": round(time.monotonic() - started, 3),
        "prompt_tokens": prompted,
        "completion_tokens": tokens,
        "time_to_first_token": round(wait, 3) if wait is not None else None,
        "prefill_tokens_per_second": round(prompted / wait, 2) if wait and prompted else None,
        "decode_tokens_per_second": round((tokens - 1) / rest, 2) if tokens > 1 and rest > 0 and pieces > 1 else None,
    }


def words_of(message: dict[str, Any]) -> str:
    """What a message or a piece of one says, thoughts included where there is nothing else."""
    return message.get("content") or message.get("reasoning_content") or message.get("reasoning") or ""


def lacks(answer: dict[str, Any]) -> str | None:
    """What of a completion was not counted as it should be."""
    for key, words in (("completion_tokens", "of the answer"), ("prompt_tokens", "of the prompt")):
        if not answer[key]:
            return f"counts no token {words}"
    return None
