# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Logs of servers that have been at work: what clients sent, starts anew, stops; and logs of other programs."""

from __future__ import annotations

import pytest

from ansible_collections.gb10.serving.plugins.module_utils._engine_log import classify

API = "(APIServer pid=1) "
VLLM_READY = (
    API + "INFO 01-01 10:00:00 [x.py:1] vLLM API server version 0.33.0\n"
    "(Worker_TP0 pid=9) INFO 01-01 10:00:05 [x.py:1] Starting to load model /m\n"
    "(APIServer pid=1) INFO:     Application startup complete.\n"
)
SGLANG_READY = (
    "[2026-01-01 10:00:00] server_args=ServerArgs(model_path='/m', tp_size=2, nnodes=2)\n"
    "[2026-01-01 10:00:05 TP0] Load weight begin. avail mem=10.00 GB\n"
    "[2026-01-01 10:00:09] The server is fired up and ready to roll!\n"
)
ANSWERED = 'INFO:     10.9.0.7:1 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
PROMPT = "INFO 01-01 10:09:00 [logger.py:4] Received request c-1: prompt: 'Why {} ?', params: SamplingParams(n=1)\n"

WORDS = [
    "Segmentation fault (core dumped)",
    "Worker proc X died unexpectedly, and NCCL WARN Call to ibv_reg_mr failed",
    "kernel: Out of memory: Killed process 12 (python)",
    "NVRM: Xid (PCI:0000): 79, GPU has fallen off the bus",
    "non-default args: {}",
    "vLLM API server version 0.1",
    "server_args=ServerArgs()",
]


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize(
    ("start", "form"),
    [
        (VLLM_READY, API + PROMPT),
        (VLLM_READY, API + PROMPT.replace("Why", "Fix\nTraceback (most recent call last):\nKilled\nOSError: No space")),
        (VLLM_READY, API + "INFO 01-01 10:09:00 [x.py:5] Request c-1 details: prompt: '{}', prompt_token_ids: [1]\n"),
        (VLLM_READY, 'INFO:     10.0.0.1:1 - "GET /x?{} HTTP/1.1" 404 Not Found\n'),
        (SGLANG_READY, '[2026-01-01 10:09:00] Receive: obj=GenerateReqInput(text="{}")\n'),
        (SGLANG_READY, "[2026-01-01 10:09:00] Finish: obj=GenerateReqInput(text='x'), out={{'text': '{}'}}\n"),
    ],
)
def test_what_clients_send_is_no_word_of_the_engine(start: str, form: str, words: str) -> None:
    answer = classify(start + form.format(words, "") + ANSWERED, 0.0)
    assert (answer["verdict"], answer["cause"], answer["phase"]) == ("ready", None, "ready"), answer
