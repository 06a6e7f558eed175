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
  - With O(container), also looks who listens on the port. An engine that was left over from before answers as well as
    the new one; neither the name of its model nor the times it tells differ, but the process that listens does.
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
    description: Seconds that each request may take, from its begin to the end of its answer.
    type: float
    default: 60
  stream:
    description: Whether a second completion is asked for that comes piece by piece, which shows how fast tokens come.
    type: bool
    default: true
  container:
    description: Container whose process must listen on the port. Looking needs root; without it nothing is said of it.
    type: str
  release:
    description: Release that this container must have as its label.
    type: str
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
    cause:
      description: Cause out of docs/causes.md where there is a problem that has one, else V(null).
      type: str
      sample: null
    listener:
      description:
        - Who listens on the port. C(own) says whether it is O(container), V(null) if that cannot be told; C(holder) who
          it is instead; C(started_at) and C(release) are those of the container.
        - V(null) without O(container).
      type: dict
      sample: {own: true, started_at: "2026-11-30T10:00:00.1Z", release: main-0a1b2c3d4e5f, holder: null, problem: null}
    problem:
      description: What was not as expected, and what to do; V(null) when all is well.
      type: str
      sample: null
    completion:
      description:
        - The answer, with the seconds from request to end and the tokens of prompt and answer.
        - In C(streamed) the second one, with the seconds until its first token, and the tokens a second of the prompt
          until then and of the answer after it. V(null) for what one token or one piece cannot show.
      type: dict
      sample:
        text: Hello.
        seconds: 0.8
        prompt_tokens: 15
        completion_tokens: 3
        tokens_per_second: 3.8
        streamed: {time_to_first_token: 0.2, prefill_tokens_per_second: 75.0, decode_tokens_per_second: 4.1}
"""

import http.client
import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import _port_owner, _redact
from ansible_collections.gb10.serving.plugins.module_utils._endpoint import (
    KEY_EXPECTED,
    Endpoint,
    complete,
    key_problem,
    lacks,
    stream,
)


def probe(
    endpoint: Endpoint, model: str, prompt: str, max_tokens: int, streamed: bool = False, listener: Any = None
) -> dict[str, Any]:
    """Ask health, models and completions in that order; stop at the first that is not as expected."""
    seen: dict[str, Any] = {"healthy": False, "models": [], "ok": False, "problem": None, "cause": None}
    seen.update(listener=listener, completion=None)
    place = f"http://{endpoint.address}:{endpoint.port}"

    def wrong(problem: str, cause: str | None = "unknown") -> dict[str, Any]:
        # A server may repeat the key that it was sent.
        return {**seen, "problem": _redact.text(problem, _redact.known([endpoint.api_key])), "cause": cause}

    if endpoint.api_key and (bad := key_problem(endpoint.api_key)):
        return wrong(
            f"the API key {bad}. Expected: {KEY_EXPECTED}. Next step: write gb10_server_api_key anew, "
            "with printf or echo -n where it is piped into ansible-vault.",
            None,
        )
    if listener and listener["own"] is False:
        return wrong(
            f"{listener['problem']}. Expected: the container of this release on {place}. "
            "Next step: stop the other one, or choose another gb10_server_port; then deploy again.",
            "port_in_use" if listener["holder"] else "unknown",
        )
    try:
        status, _text = endpoint.request("/health")
        seen["healthy"] = status == 200
        if not seen["healthy"]:
            return wrong(f"{place}/health answered {status}. Expected: 200. Next step: read the log of rank 0.")
        status, text = endpoint.request("/v1/models")
        if status == 401:
            said = f"{place}/v1/models answered 401: {text[-300:]}"
            return wrong(f"{said} Expected: 200. Next step: check gb10_server_api_key.", None)
        if status != 200:
            return wrong(
                f"{place}/v1/models answered {status}: {text[-300:]} Expected: 200. Next step: read the log of rank 0."
            )
        seen["models"] = [entry["id"] for entry in json.loads(text)["data"]]
        if model not in seen["models"]:
            return wrong(
                f"{place} serves {', '.join(seen['models'])}. Expected: {model}. "
                "Next step: another server holds this port; stop it or choose another gb10_server_port.",
                "port_in_use",
            )
        if prompt:
            answers = [complete(endpoint, model, prompt, max_tokens)]
            seen["completion"] = answers[0]
            if streamed:
                answers.append(stream(endpoint, model, prompt, max_tokens))
                seen["completion"]["streamed"] = answers[1]
            for answer, words in zip(answers, ("answered", "streamed an answer"), strict=False):
                if lack := lacks(answer):
                    return wrong(
                        f"{place} {words} and {lack}. Expected: at least one in its usage. Next step: read its log."
                    )
    except TimeoutError:
        return wrong(
            f"{place} gave no answer within {endpoint.deadline:g} s. Expected: a completion. "
            "Next step: a rank hangs or is busy; the status playbook shows which, and a deploy with "
            "-e gb10_server_restart=true starts all ranks anew.",
            "collective_timeout",
        )
    except (OSError, http.client.HTTPException, ValueError, KeyError, IndexError, TypeError) as error:
        return wrong(f"{place} did not answer as expected ({error}). Next step: read the log of rank 0.")
    return {**seen, "ok": True}


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
            "stream": {"type": "bool", "default": True},
            "container": {"type": "str"},
            "release": {"type": "str"},
        },
        supports_check_mode=True,
    )
    params = module.params
    endpoint = Endpoint(params["address"], params["port"], params["api_key"], params["deadline"])

    def run(argv: list[str]) -> tuple[int, str, str]:
        return module.run_command(argv, environ_update={"LC_ALL": "C"}, handle_exceptions=False)

    listener = None
    if params["container"]:
        listener = _port_owner.check(run, params["port"], params["container"], params["release"])
    seen = probe(
        endpoint, params["model"], params["prompt"], params["max_tokens"], bool(params["stream"]), listener=listener
    )
    module.exit_json(changed=False, endpoint=seen)


if __name__ == "__main__":
    main()
