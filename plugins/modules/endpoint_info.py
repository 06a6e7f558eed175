#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: endpoint_info
short_description: What an inference endpoint serves, and whether it really answers
version_added: 0.1.0
description:
  - Asks an OpenAI compatible endpoint, from the node it runs on, for its health, its models, and one chat completion.
  - A healthy endpoint whose ranks hang answers C(/health) and never a completion; only the completion is a proof.
extends_documentation_fragment:
  - gb10.serving.attributes
  - gb10.serving.attributes.info_module
options:
  address:
    description: Address that the endpoint is bound to. An address that means "all" is asked on the loopback.
    type: str
    default: 127.0.0.1
  port:
    description: TCP port of the endpoint.
    type: int
    required: true
  model:
    description: Name under which the model must be served.
    type: str
    required: true
  api_key:
    description: Key of the endpoint, if it has one.
    type: str
  prompt:
    description: What to ask. An empty prompt asks for no completion.
    type: str
    default: Say hello in one short sentence.
  max_tokens:
    description: Upper limit of the answer.
    type: int
    default: 32
  deadline:
    description: Seconds that each request may take.
    type: float
    default: 60
author:
  - gb10.serving contributors (@gb10-serving)
"""

EXAMPLES = r"""
- name: Prove that tokens come
  gb10.serving.endpoint_info:
    port: 8000
    model: Qwen/Qwen3.5-122B-A10B-FP8
  register: answer
"""

RETURN = r"""
endpoint:
  description: What was seen.
  returned: always
  type: dict
  contains:
    healthy:
      description: Whether C(/health) answered 200.
      type: bool
      sample: true
    models:
      description: Names of the models served.
      type: list
      elements: str
      sample: [Qwen/Qwen3.5-122B-A10B-FP8]
    ok:
      description: Whether the model is served and, if O(prompt) is not empty, a completion came.
      type: bool
      sample: true
    problem:
      description: What was not as expected, and what to do; V(null) when all is well.
      type: str
      sample: null
    completion:
      description: The answer, with the seconds from request to end and the tokens of prompt and answer.
      type: dict
      sample: {text: Hello., seconds: 0.8, prompt_tokens: 15, completion_tokens: 3, tokens_per_second: 3.8}
"""

import http.client
import json
import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule

#: Addresses that mean "all": a client asks the loopback instead.
EVERYWHERE = {"0.0.0.0", "::", ""}


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
        """
        connection = http.client.HTTPConnection(self.address, self.port, timeout=self.deadline)
        headers = {"Content-Type": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        try:
            text = json.dumps(body) if body is not None else None
            connection.request("POST" if text else "GET", path, body=text, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode("utf-8", "replace")
        finally:
            connection.close()


def probe(endpoint: Endpoint, model: str, prompt: str, max_tokens: int) -> dict[str, Any]:
    """Ask health, models and a completion in that order; stop at the first that is not as expected."""
    seen: dict[str, Any] = {"healthy": False, "models": [], "ok": False, "problem": None, "completion": None}
    place = f"http://{endpoint.address}:{endpoint.port}"
    try:
        status, _text = endpoint.request("/health")
        seen["healthy"] = status == 200
        if not seen["healthy"]:
            seen["problem"] = f"{place}/health answered {status}. Expected: 200. Next step: read the log of rank 0."
            return seen
        status, text = endpoint.request("/v1/models")
        if status != 200:
            seen["problem"] = f"{place}/v1/models answered {status}: {text[-300:]} Expected: 200. " + (
                "Next step: check gb10_server_api_key." if status == 401 else "Next step: read the log of rank 0."
            )
            return seen
        seen["models"] = [entry["id"] for entry in json.loads(text)["data"]]
        if model not in seen["models"]:
            seen["problem"] = (
                f"{place} serves {', '.join(seen['models'])}. Expected: {model}. "
                "Next step: another server holds this port; stop it or choose another gb10_server_port."
            )
            return seen
        if prompt:
            seen["completion"] = complete(endpoint, model, prompt, max_tokens)
            if not seen["completion"]["completion_tokens"]:
                seen["problem"] = f"{place} answered with no token. Expected: at least one. Next step: read its log."
                return seen
    except TimeoutError:
        seen["problem"] = (
            f"{place} gave no answer within {endpoint.deadline:g} s. Expected: a completion. "
            "Next step: a rank hangs or is busy; the status playbook shows which, and a deploy with "
            "-e gb10_server_restart=true starts all ranks anew."
        )
        return seen
    except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError) as error:
        seen["problem"] = f"{place} did not answer as expected ({error}). Next step: read the log of rank 0."
        return seen
    seen["ok"] = True
    return seen


def complete(endpoint: Endpoint, model: str, prompt: str, max_tokens: int) -> dict[str, Any]:
    """One chat completion at temperature 0."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": 0,
    }
    started = time.monotonic()
    status, text = endpoint.request("/v1/chat/completions", body)
    seconds = time.monotonic() - started
    if status != 200:
        raise ValueError(f"chat completion answered {status}: {text[-300:]}")
    answer = json.loads(text)
    message, usage = answer["choices"][0]["message"], answer["usage"]
    tokens = usage.get("completion_tokens") or 0
    return {
        "prompt": prompt,
        "text": message.get("content") or message.get("reasoning_content") or message.get("reasoning") or "",
        "seconds": round(seconds, 3),
        "prompt_tokens": usage.get("prompt_tokens"),
        "completion_tokens": tokens,
        "tokens_per_second": round(tokens / seconds, 2) if seconds > 0 else None,
    }


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "address": {"type": "str", "default": "127.0.0.1"},
            "port": {"type": "int", "required": True},
            "model": {"type": "str", "required": True},
            "api_key": {"type": "str", "no_log": True},
            "prompt": {"type": "str", "default": "Say hello in one short sentence."},
            "max_tokens": {"type": "int", "default": 32, "no_log": False},
            "deadline": {"type": "float", "default": 60},
        },
        supports_check_mode=True,
    )
    params = module.params
    endpoint = Endpoint(params["address"], params["port"], params["api_key"], params["deadline"])
    module.exit_json(changed=False, endpoint=probe(endpoint, params["model"], params["prompt"], params["max_tokens"]))


if __name__ == "__main__":
    main()
