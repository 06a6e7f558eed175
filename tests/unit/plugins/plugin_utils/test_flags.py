# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Arguments against the flags of real releases: what argparse takes is not refused, what it refuses is named."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gb10.serving.plugins.plugin_utils import _engines, _flag_values, _flags
from ansible_collections.gb10.serving.plugins.plugin_utils._flag_parser import Parser
from ansible_collections.gb10.serving.tests.unit.plugins.module_utils import flag_lists

ROOT = Path(__file__).parents[4]
OLD_VLLM, VLLM, OLD_SGLANG, SGLANG = "vllm-0.25.1", "vllm-0.32.0", "sglang-0.5.17", "sglang-0.5.20"

#: Recipe -> the release that its image holds.
RECIPES = {
    "playbooks/recipes/qwen35_122b_fp8.yml": OLD_VLLM,
    "tests/engines/recipe.yml": VLLM,
}


def check(release: str, *args: Any) -> _flags.Verdict:
    return _flags.check(args, flag_lists.found(release))


def text(release: str, *args: Any) -> str:
    """The one problem with the arguments."""
    problems = check(release, *args).problems
    assert len(problems) == 1, problems
    return str(problems[0])


@pytest.mark.parametrize("recipe", RECIPES)
def test_shipped_recipes_fit_the_release_they_name(recipe: str) -> None:
    values = yaml.safe_load((ROOT / recipe).read_text())
    release = RECIPES[recipe]
    assert values["gb10_server_engine"] == release.split("-")[0]
    assert check(release, *values["gb10_server_args"]) == _flags.Verdict()


def test_every_shipped_recipe_is_looked_at() -> None:
    shipped = {str(path.relative_to(ROOT)) for path in (ROOT / "playbooks" / "recipes").glob("*.yml")}
    assert shipped <= set(RECIPES)
    for recipe, release in RECIPES.items():
        tag = yaml.safe_load((ROOT / recipe).read_text())["gb10_image_ref"].partition(":")[2]
        assert release.partition("-")[2] in tag or recipe.startswith("tests/")


def test_text_only_is_a_flag_of_the_image_and_not_of_the_engine() -> None:
    assert check(SGLANG, "--language-model-only") == _flags.Verdict()
    assert check(VLLM, "--language-model-only") == _flags.Verdict()
    refused = text(OLD_SGLANG, "--language-model-only")
    assert "not a flag of SGLang 0.5.17" in refused
    assert "SGLang has it since 0.5.18" in refused and "vLLM has it" in refused
    assert "--language-only is something else" in refused
    # A typing error is not led to the flag that only looks alike.
    assert "since 0.5.18" in text(OLD_SGLANG, "--language-modl-only")


@pytest.mark.parametrize(
    ("release", "args"),
    [
        (VLLM, ["--enforce-eager", "--seed", "-1", "--hf-token", "--hf-overrides", '{"a": {"b": 1}}']),
        (VLLM, ["--async_scheduling", "--no_enable_eplb", "--cpu-offload-g", "1"]),
        (VLLM, ["--compilation-config.mode", "3", "--compilation_config.pass_config.x=1", "-cc.y", "2"]),
        (VLLM, ["--limit-mm-per-prompt", '{"image": 2}', "--limit-mm-per-prompt.video", "0"]),
        (VLLM, ["--middleware", "a", "--middleware", "b"]),
        (VLLM, ["-O3"]),
        (VLLM, ["-O", "1"]),
        (VLLM, ["-O=2", "-O.mode=3"]),
        (VLLM, ["--collect-detailed-traces", "model,worker"]),
        (VLLM, ["--tool-call-parser=hermes", "--enable-auto-tool-choice"]),
        (VLLM, ["--chat-template", "{% for m in messages %}{{ m }}{% endfor %}"]),
        (VLLM, ["--num-gpu-blocks-override", "4k"]),
        (SGLANG, ["--lora-paths", "--lora-target-modules", "q_proj", "k_proj"]),
        (SGLANG, ["--cuda-graph-bs-decode", "1", "2", "4"]),
        (SGLANG, ["--forward-pass-metrics-ipc-name", "x"]),
        (SGLANG, ["--reasoning-parser", "qwen3", "--tool-call-parser=qwen3_coder"]),
        (SGLANG, []),
    ],
)
def test_what_the_engine_takes_is_not_refused(release: str, args: list[str]) -> None:
    assert check(release, *args).problems == []


@pytest.mark.parametrize(
    ("release", "args", "words"),
    [
        # Of another engine.
        (SGLANG, ["--gpu-memory-utilization", "0.9"], ["vLLM's", "--mem-fraction-static", "_mem_fraction_static"]),
        (SGLANG, ["--max-model-len", "4096"], ["vLLM's", "--context-length", "gb10_plan_context_length"]),
        (SGLANG, ["-tp", "2"], ["vLLM's", "--tp-size", "gb10_plan_tp"]),
        (SGLANG, ["--enforce-eager"], ["vLLM's", "use --disable-cuda-graph"]),
        (SGLANG, ["--enable-auto-tool-choice"], ["needs none", "--tool-call-parser alone"]),
        (SGLANG, ["--headless"], ["needs none", "take it out"]),
        (SGLANG, ["--distributed-executor-backend", "mp"], ["vLLM's", "take it out"]),
        (VLLM, ["--mem-fraction-static", "0.8"], ["SGLang's", "--gpu-memory-utilization"]),
        (VLLM, ["--tp-size", "2"], ["SGLang's", "--tensor-parallel-size"]),
        (VLLM, ["--disable-radix-cache"], ["SGLang's", "use --no-enable-prefix-caching"]),
        # Unknown, with the nearest.
        (VLLM, ["--enable-autotool-choice"], ["not a flag of vLLM 0.32.0", "write --enable-auto-tool-choice"]),
        (VLLM, ["--tp", "2"], ["if -tp is meant, take it out and set gb10_plan_tp"]),
        (VLLM, ["--qwertz", "1"], ["--qwertz is not a flag", "take it out"]),
        (SGLANG, ["--reasoning_parser", "qwen3"], ["write --reasoning-parser", "no underscores"]),
        (VLLM, ["--compilation-confg.mode", "3"], ["not a flag"]),
        (SGLANG, ["--json-model-override-args.a", "3"], ["not a flag"]),
        # Removed and renamed.
        (VLLM, ["--swap-space", "4"], ["went with 0.18 to 0.20"]),
        (VLLM, ["--task", "generate"], ["went with", "use --runner or --convert"]),
        (SGLANG, ["--nsa-decode-backend", "fa3"], ["use --dsa-decode-backend"]),
        (SGLANG, ["--cuda-graph-bs", "1", "2"], ["could be --cuda-graph-bs-decode", "write --cuda-graph-bs-decode"]),
        # Beginnings of names.
        (SGLANG, ["--pp", "1"], ["--pp could be --pp-async-batch-depth, --pp-max", "--pp-size", "the whole name"]),
        (VLLM, ["--enable-p", "x"], ["could be"]),
        # What the spec decides, in any spelling.
        (SGLANG, ["--tp", "2"], ["--tp is given", "gb10_plan_tp"]),
        (SGLANG, ["--context", "4096"], ["gb10_plan_context_length"]),
        (SGLANG, ["--config", "x.yml"], ["take it out"]),
        (VLLM, ["--max_model_len=4096"], ["gb10_plan_context_length"]),
        (VLLM, ["--max-model", "4096"], ["gb10_plan_context_length"]),
        (VLLM, ["-n2"], ["set on every rank"]),
        (VLLM, ["--node-rank", "1"], ["gb10_rank"]),
        (VLLM, ["--api-key", "a", "b"], ["gb10_server_api_key"]),
        # Values.
        (VLLM, ["--enforce-eager=true"], ["has a value", "takes none"]),
        (VLLM, ["--enforce-eager", "true"], ["'true' follows --enforce-eager, which takes no value"]),
        (VLLM, ["--seed", "1", "2"], ["'2' follows --seed, which takes one value"]),
        (VLLM, ["qwen3"], ["'qwen3' stands before any flag"]),
        (VLLM, ["--seed"], ["--seed has no value"]),
        (VLLM, ["--chat-template", "-x"], ["-x is not a flag"]),
        (SGLANG, ["--dtype"], ["--dtype has no value", "auto, half"]),
        (SGLANG, ["--dtype", "fp8"], ["--dtype is 'fp8'", "auto, half"]),
        (SGLANG, ["--dtype", "bfloat61"], ["write bfloat16"]),
        (SGLANG, ["--attention-backend", "cutlass_mla"], ["--attention-backend is 'cutlass_mla'", "triton"]),
        (SGLANG, ["--page-size", "big"], ["--page-size is 'big'", "a number"]),
        (VLLM, ["--block-size", "big"], ["a number"]),
        (VLLM, ["--speculative-config", "{'a': 1}"], ["not JSON", "double quotes"]),
        # Twice.
        (VLLM, ["--seed", "1", "--seed=2"], ["--seed is given 2 times", "only the last"]),
        (VLLM, ["--async-scheduling", "--no-async-scheduling"], ["given 2 times"]),
        (VLLM, ["-O3", "-O", "2"], ["--optimization-level is given 2 times"]),
    ],
)
def test_what_is_wrong_is_said(release: str, args: list[str], words: list[str]) -> None:
    problem = "; ".join(map(str, check(release, *args).problems))
    assert all(word in problem for word in words), problem
    assert problem.count("Expected: ") == problem.count("Next step: ") >= 1


@pytest.mark.parametrize(
    ("release", "args", "words"),
    [
        (SGLANG, ["--admin-api-key", "hush"], ["--admin-api-key is given", "gb10_server_api_key"]),
        (SGLANG, ["--admin-api-key=hush"], ["gb10_server_api_key"]),
        (SGLANG, ["--admin-api", "hush"], ["gb10_server_api_key"]),
        (SGLANG, ["--api-key", "hush", "hush"], ["gb10_server_api_key"]),
        (SGLANG, ["--ssl-keyfile-password", "hush"], ["--ssl-keyfile-password", "proxy"]),
        (SGLANG, ["--hf-token", "hush"], ["HF_TOKEN in gb10_server_secret_env"]),
        (VLLM, ["--hf-token", "hush"], ["HF_TOKEN in gb10_server_secret_env", "launch.sh"]),
        (VLLM, ["--hf_token=hush"], ["HF_TOKEN in gb10_server_secret_env"]),
        (VLLM, ["--other-password", "hush"], ["secret", "gb10_server_secret_env"]),
    ],
)
def test_secrets_are_no_arguments(release: str, args: list[str], words: list[str]) -> None:
    for found in (flag_lists.found(release), {**flag_lists.found(release), "flags": None}):
        problems = "; ".join(map(str, _flags.check(args, found).problems))
        if found["flags"] or args[0] not in ("--admin-api", "--hf-token"):
            assert all(word in problems for word in words), problems
        assert "hush" not in problems


@pytest.mark.parametrize(
    ("release", "args", "words"),
    [
        (VLLM, ["--ssl-keyfile", "/k"], ["plain HTTP", "proxy"]),
        (VLLM, ["--ssl-certf", "/k"], ["plain HTTP"]),
        (VLLM, ["--uds", "/x"], ["gb10_server_bind"]),
        (VLLM, ["--grpc"], ["gRPC"]),
        (VLLM, ["--data-parallel-size", "2"], ["one on each node"]),
        (VLLM, ["-dp", "2"], ["-dp is given", "one on each node"]),
        (VLLM, ["--data_parallel_size=2"], ["one on each node"]),
        (VLLM, ["--prefill-context-parallel-size", "2"], ["one on each node"]),
        (VLLM, ["--data-parallel-external-lb"], ["one on each node"]),
        (VLLM, ["--config", "x.yml"], ["nobody has checked", "gb10_server_args"]),
        (VLLM, ["--tokens-only"], ["no chat completion"]),
        (SGLANG, ["--skip-tokenizer-init"], ["no chat completion"]),
        (VLLM, ["-h"], ["serves nothing"]),
        (VLLM, ["--help"], ["serves nothing"]),
        (SGLANG, ["--help"], ["serves nothing"]),
        (SGLANG, ["--ssl-certfile", "/k"], ["plain HTTP"]),
        (SGLANG, ["--dp-size", "2"], ["one on each node"]),
        (SGLANG, ["--data-parallel-size", "2"], ["one on each node"]),
        (SGLANG, ["--grpc-mode"], ["gRPC"]),
    ],
)
def test_what_proof_and_layout_cannot_work_with_is_refused(release: str, args: list[str], words: list[str]) -> None:
    problem = text(release, *args)
    assert all(word in problem for word in words), problem
    unknown = {**flag_lists.found(release), "flags": None}
    assert bool(_flags.check(args, unknown).problems) == (args[0] not in ("-dp", "-h", "--ssl-certf"))


@pytest.mark.parametrize(
    ("release", "args", "words"),
    [
        (VLLM, ["\u2013enforce-eager"], ["--enforce-eager starts with an en dash", "write --enforce-eager."]),
        (VLLM, ["\u2014\u2014enforce-eager"], ["an em dash"]),
        (VLLM, ["\u2013seed", "5"], ["write --seed."]),
        (VLLM, ["--chat-template", "\u2013trust-remote-code"], ["en dash", "--chat-template has no value"]),
        (VLLM, ["--reasoning\u2011parser", "qwen3"], ["has a non-breaking hyphen in it", "write --reasoning-parser."]),
        (VLLM, ["\ufeff--enforce-eager"], ["zero width no-break space", "not seen"]),
        (VLLM, ["--enforce-eager\u200b"], ["zero width space in it"]),
        (VLLM, ["--enforce-eager "], ["ends in a blank"]),
        (VLLM, ["--enforce-eager\n"], ["ends in a blank or a newline"]),
        (VLLM, [" --enforce-eager"], ["starts with a blank"]),
        (VLLM, ['"--enforce-eager"'], ["has quotes around it", "write --enforce-eager."]),
        (VLLM, ["\u201c--enforce-eager\u201d"], ["has quotes around it"]),
        (
            VLLM,
            ["--block-size 16"],
            ["its value in the same list item", "write --block-size, and its value as a list item"],
        ),
        (VLLM, ["'--seed=5'"], ["has quotes around it"]),
        (SGLANG, ["\u2013api-key", "hush"], ["en dash", "gb10_server_api_key"]),
        (SGLANG, ["\u2013admin-api-key=hush"], ["en dash", "gb10_server_api_key"]),
        (VLLM, ["--block-size", "'16'"], ["a number"]),
    ],
)
def test_a_flag_out_of_a_document_is_recognised(release: str, args: list[str], words: list[str]) -> None:
    problems = "; ".join(map(str, check(release, *args).problems))
    assert all(word in problems for word in words), problems
    assert "stands before any flag" not in problems and "hush" not in problems


def test_values_that_only_look_like_flags_are_taken() -> None:
    assert check(VLLM, "--chat-template", "\u2013 - a \u2013", '--hf-overrides={"a": "\u2013seed"}').problems == []


def test_what_switches_a_refused_flag_off_is_taken() -> None:
    assert check(VLLM, "--no-data-parallel-external-lb", "--decode-context-parallel-size", "2").problems == []


DEFAULT = "take it out; it is the default."


@pytest.mark.parametrize(
    ("release", "flag", "remedy"),
    [
        (SGLANG, "--enforce-eager", "use --disable-cuda-graph."),
        (SGLANG, "--no-enforce-eager", DEFAULT),
        (SGLANG, "--no-enforce-eagr", DEFAULT),
        (SGLANG, "--enable-cuda-graph", DEFAULT),
        (SGLANG, "--no-disable-cuda-graph", DEFAULT),
        (SGLANG, "--enable-prefix-caching", DEFAULT),
        (SGLANG, "--no-enable-prefix-caching", "use --disable-radix-cache."),
        (SGLANG, "--no-enable-prefix-cachin", "use --disable-radix-cache."),
        (SGLANG, "--enable-log-requests", "use --log-requests."),
        (SGLANG, "--disable-log-requests", DEFAULT),
        (SGLANG, "--no-enable-log-requests", DEFAULT),
        (SGLANG, "--no-language-model-only", DEFAULT),
        (SGLANG, "--no-enable-expert-parallel", DEFAULT),
        (SGLANG, "--no-async-scheduling", "use --disable-overlap-schedule."),
        (VLLM, "--disable-radix-cache", "use --no-enable-prefix-caching."),
        (VLLM, "--no-disable-radix-cache", "use --enable-prefix-caching."),
        (VLLM, "--enable-radix-cache", "use --enable-prefix-caching."),
        (VLLM, "--disable-cuda-graph", "use --enforce-eager."),
        (VLLM, "--no-disable-cuda-graph", DEFAULT),
        (VLLM, "--disable-enforce-eager", DEFAULT),
        (VLLM, "--log-requests", "use --enable-log-requests."),
        (VLLM, "--disable-overlap-schedule", "use --no-async-scheduling."),
    ],
)
def test_what_is_advised_switches_in_the_same_direction(release: str, flag: str, remedy: str) -> None:
    (problem,) = check(release, flag).problems
    assert problem.remedy == remedy, str(problem)


def test_no_slip_of_the_pen_is_led_to_the_opposite() -> None:
    for release in (VLLM, SGLANG):
        names = Parser(flag_lists.flags(release), _engines.get(release.split("-")[0])).names
        for name in (name for name in names if name.startswith("--")):
            for slip in (f"--no-{name[2:]}", f"--disable-{name[2:]}"):
                for problem in check(release, slip).problems if slip not in names else []:
                    assert name not in advised(problem), str(problem)


def test_all_problems_at_once() -> None:
    verdict = check(SGLANG, "--enforce-eager", "--pp", "1", "--tp", "2", "--dtype", "x", "--page-size", "--qwertz")
    assert len(verdict.problems) == 6


def test_newer_releases_make_beginnings_ambiguous() -> None:
    bucket = {**flag_lists.read("--context-bucket ="), "name": "--context-bucket"}
    found = flag_lists.found(SGLANG)
    found["flags"].append(bucket)
    assert "could be --context-bucket, --context-length" in str(_flags.check(["--context", "5"], found).problems[0])


@pytest.mark.parametrize(
    ("release", "args", "word"),
    [
        (SGLANG, ["--disable-cuda-graph"], "will go away"),
        (VLLM, ["--tool-call-parser", "mine"], "The engine will say"),
    ],
)
def test_doubts_are_no_refusal(release: str, args: list[str], word: str) -> None:
    verdict = check(release, *args)
    assert verdict.problems == [] and len(verdict.warnings) == 1
    assert word in verdict.warnings[0] and args[0] in verdict.warnings[0]


def test_hidden_negatives_are_taken() -> None:
    pair = {**flag_lists.read("--enable-x !--disable-x"), "hidden": ["--no-enable-x"]}
    found = {**flag_lists.found(VLLM), "flags": [pair]}
    assert _flags.check(["--no-enable-x"], found).problems == []
    assert "takes none" in str(_flags.check(["--no-enable-x=1"], found).problems[0])


@pytest.mark.parametrize("reason", ["the engine found no GPU", None])
def test_without_flags_only_owned_ones_are_refused(reason: str | None) -> None:
    found = {"name": "vllm", "version": "0.25.1", "flags": None, "flags_reason": reason}
    verdict = _flags.check(["--qwertz", "--max_model_len=5", "--gpu-memory-util", "0.9"], found)
    assert [problem.seen.split()[0] for problem in verdict.problems] == ["--max-model-len", "--gpu-memory-util"]
    assert len(verdict.warnings) == 1 and (reason or "nobody asked") in verdict.warnings[0]
    assert _flags.check([], found) == _flags.Verdict()
    assert _flags.check_own(["--qwertz"], found) == []


def spec(name: str, world_size: int = 2) -> dict[str, Any]:
    return {
        "engine": {"name": name, "args": ["--not-looked-at"]},
        "model": {"container_path": "/model", "served_name": "m"},
        "world_size": world_size,
        "parallel": {"tp": world_size},
        "rendezvous": {"address": "192.168.200.12", "port": 29501},
        "endpoint": {"bind": "127.0.0.1", "port": 8000, "api_key": True},
        "memory": {
            "context_length": 4096,
            "max_num_seqs": 8,
            "max_num_batched_tokens": 2048,
            "kv_cache_dtype": "fp8",
            "kv_cache_bytes": 1 << 30,
            "gpu_memory_utilization": 0.8,
            "mem_fraction_static": 0.8,
        },
    }


@pytest.mark.parametrize("release", flag_lists.RELEASES)
def test_what_the_collection_gives_is_taken(release: str) -> None:
    found = flag_lists.found(release)
    assert _flags.check_spec(spec(found["name"]), found) == []
    assert _flags.check_spec(spec(found["name"], 1), found) == []


def test_a_release_without_a_flag_that_is_needed_is_refused() -> None:
    found = flag_lists.found(VLLM)
    found["flags"] = [flag for flag in found["flags"] if flag["name"] != "--headless"]
    (problem,) = _flags.check_spec(spec("vllm"), found)
    assert "--headless" in problem.seen and problem.where == "gb10_image_ref"


def numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


@pytest.mark.parametrize("name", _engines.ENGINES)
def test_names_in_the_tables_are_flags_of_some_release(name: str) -> None:
    engine = _engines.get(name)
    releases = [release for release in flag_lists.RELEASES if release.startswith(f"{name}-")]
    known = {flag for release in releases for flag in Parser(flag_lists.flags(release), engine).names}
    assert set(engine.OWNED) <= known
    assert {flag for flag, _note in engine.CONCEPTS.values() if flag} <= known
    switches = {flag for on, off, _default in engine.SWITCHES.values() for flag in (*on, *off)}
    assert switches <= known | set(engine.CHANGED)
    newest = Parser(flag_lists.flags(releases[-1]), engine).names
    here = numbers(releases[-1])
    gone = {flag for flag, (when, _instead) in engine.CHANGED.items() if numbers(when.split()[-1]) <= here}
    assert gone and not gone & set(newest)


@pytest.mark.parametrize("release", flag_lists.RELEASES)
def test_refuses_exactly_what_argparse_refuses(release: str) -> None:
    """Random command lines, read by argparse itself and by the check. Rules that argparse has not are left out."""
    dice = random.Random(release)
    flags = [flag for flag in flag_lists.flags(release) if not flag["positional"]]
    parser = flag_lists.parser(release)
    engine = _engines.get(release.split("-")[0])
    mine = Parser(flag_lists.flags(release), engine)
    verdicts = set()
    for _round in range(400):
        args: list[str] = []
        for _flag in range(dice.randint(1, 3)):
            flag = dice.choice(flags)
            name = dice.choice([flag["name"], *flag["aliases"], *flag["negatives"]])
            if dice.random() < 0.2 and name.startswith("--"):
                name = name[: dice.randint(4, len(name))]
            value = dice.choice([*flag["choices"][:2], "7", "-1", "-0.5", "a b", "x"])
            args += dice.choice([[name], [name, value], [name, value], [f"{name}={value}"], [name, value, value]])
        try:
            rest = parser.parse_known_args(args)[1]
            taken = not rest
        except flag_lists.Refused:
            taken = False
        leading, given = mine.read(args)
        strays = [value for one in given for value in one.stray]
        # The model's place is the one value that argparse finds a home for; none is free in a real start.
        taken = taken and not (mine.positionals and strays)
        wrong = leading or strays or any(one.flag is None or hard(one) for one in given)
        assert (not wrong) == taken, args
        verdicts.add(taken)
    assert verdicts == {True, False}


def hard(one: Any) -> bool:
    """Problems with values that argparse sees too: not numbers and JSON, which it learns from types."""
    return any(not problem.expected.startswith(("a number", "JSON")) for problem in _flag_values.check(one))


def advised(problem: Any) -> set[str]:
    """The flags that a problem tells to use."""
    return set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", problem.remedy.replace("gb10_server_args", "")))


@pytest.mark.parametrize("release", flag_lists.RELEASES)
def test_every_flag_that_is_advised_is_one_of_the_image(release: str) -> None:
    """All that any engine has, had, or calls otherwise, and slips of the pen."""
    names = Parser(flag_lists.flags(release), _engines.get(release.split("-")[0])).names
    tables = [engine.CONCEPTS.values() for engine in _engines.ENGINES.values()]
    given = {flag for table in tables for flag, _note in table if flag}
    for engine in _engines.ENGINES.values():
        given |= {*engine.CHANGED, *engine.OWNED}
    slips = {f"{flag}s" for table in tables for flag, _note in table if flag}
    given |= slips
    seen = 0
    for name in sorted(given):
        for problem in check(release, name).problems:
            assert advised(problem) - {name} <= set(names), (name, str(problem))
            seen += bool(advised(problem) - {name})
    assert seen > 30


@pytest.mark.parametrize("release", flag_lists.RELEASES)
def test_what_a_flag_is_for_is_a_flag_of_a_release_that_is_known(release: str) -> None:
    name = release.split("-")[0]
    known = {
        flag
        for other in flag_lists.RELEASES
        if other.startswith(f"{name}-")
        for flag in Parser(flag_lists.flags(other), _engines.get(name)).names
    }
    assert {flag for flag, _note in _engines.get(name).CONCEPTS.values() if flag} <= known
    assert {flag for flag in _engines.get(name).OWNED if flag.startswith("--")} <= known


@pytest.mark.parametrize(
    ("release", "version", "flag", "words"),
    [
        (OLD_SGLANG, "0.5.9", "--elastic-ep-rejoin", "it came later, and went with 0.5.21 to 0.5.23. "),
        (OLD_VLLM, "0.20.2", "--enable-bf16x3-router-gemm", "it came later, and went with 0.29 or 0.30. "),
        (SGLANG, "0.5.20", "--stream-output", "Next step: use --incremental-streaming-output."),
        (SGLANG, None, "--stream-output", "Next step: use --incremental-streaming-output."),
        (VLLM, "0.32.0+cpu", "--task", "it went with 0.13 or 0.14."),
    ],
)
def test_a_flag_that_the_release_is_too_old_for(release: str, version: str | None, flag: str, words: str) -> None:
    found = flag_lists.found(release)
    gone = [entry for entry in found["flags"] if entry["name"] != flag]
    (problem,) = _flags.check([flag], {**found, "version": version, "flags": gone}).problems
    assert words in str(problem)


def test_a_successor_that_has_gone_is_not_advised() -> None:
    found = flag_lists.found(SGLANG)
    left = [flag for flag in found["flags"] if flag["name"] != "--incremental-streaming-output"]
    (problem,) = _flags.check(["--stream-output"], {**found, "flags": left}).problems
    assert "take it out; nothing stands for it." in str(problem)
