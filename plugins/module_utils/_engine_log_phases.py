# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the steps of a start by the lines with which the engines announce them. Data.
"""How far a start is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.gb10.serving.plugins.module_utils._engine_log_lines import REQUEST, TEXT, Line

#: The phases in the order of a start.
PHASES = ("starting", "rendezvous", "weights", "kv_cache", "graphs", "ready")

#: (text in a line, phase that has begun with it, what it means). A table has them in the order of a start.
Step = tuple[str, str, str]

VLLM: tuple[Step, ...] = (
    ("non-default args", "starting", "reading the configuration"),
    ("Resolved architecture", "starting", "reading the configuration"),
    ("Initializing a V1 LLM engine", "starting", "starting the engine"),
    ("Initializing an LLM engine", "starting", "starting the engine"),
    ("headless multiproc executor", "starting", "starting the engine"),
    ("distributed_init_method", "rendezvous", "rendezvous of the ranks"),
    ("is using nccl==", "rendezvous", "opening the collectives"),
    # What can only be said once the collectives are open: 0.12 on, on this GPU; up to 0.25; 0.32 on.
    ("SymmMemCommunicator:", "rendezvous", "opening the message queue"),
    ("process group spans", "rendezvous", "opening the message queue"),
    ("Custom collectives are disabled", "rendezvous", "opening the message queue"),
    ("is assigned as DP rank", "rendezvous", "ranks are connected"),
    ("Starting to load model", "weights", "loading weights"),
    ("Loading safetensors", "weights", "loading weights"),
    ("Loading weights took", "weights", "weights are loaded"),
    ("Model loading took", "weights", "weights are loaded"),
    ("Available KV cache memory", "kv_cache", "measuring the KV cache"),
    ("for KV cache on node", "kv_cache", "measuring the KV cache"),
    ("KV cache size", "kv_cache", "KV cache is allocated"),
    ("Capturing CUDA graphs", "graphs", "capturing CUDA graphs"),
    ("Graph capturing finished", "graphs", "CUDA graphs are captured"),
    ("init engine", "graphs", "engine is ready"),
    ("Starting vLLM", "graphs", "starting the HTTP server"),
    ("Application startup complete.", "ready", "ready"),
)

SGLANG: tuple[Step, ...] = (
    ("server_args=", "starting", "reading the configuration"),
    ("Init torch distributed begin", "rendezvous", "rendezvous of the ranks"),
    ("Init parallel begin", "rendezvous", "rendezvous of the ranks"),
    ("is using nccl==", "rendezvous", "opening the collectives"),
    ("process group spans", "rendezvous", "opening the message queue"),
    ("Setup Custom allreduce failed", "rendezvous", "opening the message queue"),
    ("Init torch distributed ends", "rendezvous", "ranks are connected"),
    ("Init parallel ends", "rendezvous", "ranks are connected"),
    ("Load weight begin", "weights", "loading weights"),
    ("Loading safetensors", "weights", "loading weights"),
    ("Load weight end", "weights", "weights are loaded"),
    ("KV Cache is allocated", "kv_cache", "KV cache is allocated"),
    ("Memory pool end", "kv_cache", "KV cache is allocated"),
    ("uda graph begin", "graphs", "capturing CUDA graphs"),
    ("UDA graph begin", "graphs", "capturing CUDA graphs"),
    ("max_total_num_tokens=", "graphs", "engine is ready"),
    ("Dummy health check server started", "graphs", "loaded, follows rank 0"),
    ("Application startup complete", "graphs", "starting the HTTP server"),
    ("The server is fired up and ready to roll!", "ready", "ready"),
)

TABLES = {"vllm": VLLM, "sglang": SGLANG}

#: The first line of a start, by its own process; each comes once in a start, so that the next one begins another.
STARTS: dict[str, tuple[re.Pattern[str], ...]] = {
    "vllm": (
        re.compile(r"vLLM API server version"),
        re.compile(r"[\u2580-\u259f ]{3,60}version \d"),
        re.compile(r"non-default args: "),
        re.compile(r"Launching vLLM \(v\S+ headless"),
        re.compile(r"Launching \d+ data parallel engine\(s\) in headless mode"),
    ),
    "sglang": (re.compile(r"server_args=ServerArgs\(|server_args=\{"),),
}
#: What images print before the engine runs.
_BANNER = re.compile(r"== (?:vLLM|SGLang|PyTorch) ==$")
#: Each of them as a group of its own.
_ANY_START = re.compile(
    "|".join(f"({sign.pattern})" for sign in (_BANNER, *(sign for signs in STARTS.values() for sign in signs)))
)

#: What a rank says when it has nothing left to do: requests are answered, or it follows rank 0.
READY = ("Application startup complete.", "The server is fired up", "Dummy health check server started")

#: Text that only one engine prints, and its weight: SGLang's tracebacks may lead through vLLM's files.
_SIGNS = (
    (
        "vllm",
        3,
        re.compile(
            r"\bvLLM (?:API )?server|\(v\d[\w.+]*\) with config|vLLM is using nccl|WorkerProc|EngineCore|VLLM::"
        ),
    ),
    ("vllm", 1, re.compile(r"\bvllm\b|\bVllm\w+|gpu_memory_utilization", re.IGNORECASE)),
    ("sglang", 5, re.compile(r"\bserver_args=|sglang is using nccl|Scheduler hit an exception|mem.fraction.static")),
    (
        "sglang",
        4,
        re.compile(r"\bsglang\b|sgl[-_]kernel|Received sigquit|Load weight (?:begin|end)|Init (?:parallel|torch)"),
    ),
)
#: What only other programs print. They may name an engine, but do not speak as one.
_FOREIGN = re.compile(
    r"^\[TensorRT-LLM\] TensorRT-LLM version|\[TRT-LLM\] \[[A-Z]\]|^(?:llama_model_loader|load_tensors|ggml_\w+): "
    r"|^time=\S+ level=[A-Z]+ source=\S+\.go:|\bjava\.lang\.\w+(?:Error|Exception)\b|^npm ERR!|\bPostgreSQL\b"
)
#: From here on signs are those of an engine itself.
_SURE = 3
#: A line of a help text, and how many make one.
_OPTION = re.compile(r"--?[A-Za-z][\w-]*(?:,? --?[A-Za-z][\w-]*)*(?: |$)")
_HELP_LINES = 12
#: Ray's own prefix is none: it carries what any engine prints.
_VLLM_ROLE = re.compile(r"APIServer|EngineCore|Worker|MainProcess")
_SGLANG_ROLE = re.compile(r"(?:TP|DP|PP)\d")
#: Only a bar that counts files or shards of weights: 45% ... 9/20.
_BAR = re.compile(
    r"(?:checkpoint|safetensors|[Ss]hard|[Ww]eight|Fetching \d+ files)[^%]{0,300}?(\d{1,3})% ?(?:Completed)?\s*\|"
)


@dataclass(frozen=True)
class Progress:
    """What a log shows of a start."""

    phase: str
    #: Position in the table of the last step, -1 for none; per line the furthest one up to there.
    steps: tuple[int, ...]
    percent: int | None
    #: Index of the line that says that requests are answered.
    ready: int | None
    #: What the last step means; empty for none.
    meaning: str = ""
    #: (phase, index of the line with which it began), of the last start that the log holds.
    begun: tuple[tuple[str, int], ...] = ()

    def step_at(self, index: int) -> int:
        return self.steps[index] if self.steps else -1


def start_of(lines: Sequence[Line]) -> int:
    """Index of the first line of the last start that the log holds."""
    begin, seen, done = 0, set[int](), False
    for index, line in enumerate(lines):
        if line.kind != TEXT or line.level == "error":
            continue
        if not (found := _ANY_START.match(line.text)):
            done = done or any(text in line.text for text in READY)
            continue
        sign = found.lastindex or 0
        if sign in seen or done:
            begin, seen, done = index, {sign}, False
        else:
            seen.add(sign)
    return begin


def is_foreign(engine: str, lines: Sequence[Line]) -> bool:
    """Whether no engine's start is told: another program's log, or a help text."""
    texts = [line.text for line in lines if line.kind == TEXT]
    options = sum(1 for text in texts if _OPTION.match(text))
    if options >= _HELP_LINES and any(
        text.startswith(("usage: ", "Usage: ", "options:", "Options:")) for text in texts
    ):
        return not any(": error: " in text for text in texts)
    if engine != "unknown" and max(_scores(lines).values()) >= _SURE:
        return False
    return any(_FOREIGN.search(text) for text in texts)


def engine_of(lines: Sequence[Line]) -> str:
    """Which engine wrote the log, or "unknown"."""
    score = _scores(lines)
    if not any(score.values()):
        return "unknown"
    return "vllm" if score["vllm"] > score["sglang"] else "sglang"


def _scores(lines: Sequence[Line]) -> dict[str, int]:
    score = {"vllm": 0, "sglang": 0}
    for line in lines:
        if _SGLANG_ROLE.match(line.role):
            score["sglang"] += 3
        elif _VLLM_ROLE.match(line.role):
            score["vllm"] += 3
        if line.kind == REQUEST:
            continue
        for engine, weight, sign in _SIGNS:
            if sign.search(line.text):
                score[engine] += weight
                break
    return score


def progress(engine: str, lines: Sequence[Line], table: Sequence[Step] = ()) -> Progress:
    """The furthest step at each line, by the steps of ``table``, or of the engine. An unknown one is read as vLLM."""
    table = table or TABLES.get(engine, VLLM)
    steps: list[int] = []
    begun: dict[str, int] = {}
    reached, percent, ready = -1, None, None
    for index, line in enumerate(lines):
        if line.kind == TEXT and line.level != "error":
            for position in range(len(table) - 1, reached, -1):
                if table[position][0] in line.text:
                    reached = position
                    begun.setdefault(table[position][1], index)
                    if table[position][1] == PHASES[-1] or table[position][0].startswith(READY):
                        ready = index
                    break
            if shown := _BAR.search(line.text):
                percent = int(shown[1])
        steps.append(reached)
    if ready is not None:
        begun.setdefault(PHASES[-1], ready)
    phase = PHASES[-1] if ready is not None else table[reached][1] if reached >= 0 else PHASES[0]
    meaning = table[reached][2] if reached >= 0 else ""
    return Progress(phase, tuple(steps), percent if phase == "weights" else None, ready, meaning, tuple(begun.items()))
