# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""The report of a run as Markdown. Pure: everything it says is in the mapping that is also written as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.serving.plugins.plugin_utils import _plan_document, _plan_svg, _report_start
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_document import RANK_KEYS
from ansible_collections.gb10.serving.plugins.plugin_utils._report_words import GIB, gib, gigabits, gigabytes, table

#: Terms of the plan in the order in which they are shown, with the words for them.
TERMS = tuple((key, words) for key, _letter, words, _colour in _plan_document.PARTS if key in RANK_KEYS)

#: The picture of the plan, beside the report.
PICTURE = "plan.svg"


def summary(report: Mapping[str, Any]) -> list[str]:
    """What a run did or would do, in a few lines for the terminal."""
    lines = []
    if plan := report.get("plan"):
        rank = min(plan["ranks"], key=lambda entry: entry["free_bytes"])
        terms = ", ".join(f"{words} {gib(rank[key])}" for key, words in TERMS if rank.get(key))
        lines.append(
            f"plan: {plan['verdict']}; tensor parallel {plan['tp']}, context {plan['context_length']} tokens, "
            f"{plan['max_num_seqs']} sequences; on {rank['host']}: {terms}"
        )
    if report.get("spec"):
        for copy in report["copies"]:
            lines.append(f"{copy['what']}: {gigabytes(copy['moved_bytes'])} from {copy['source']} to {copy['host']}")
        if not report["copies"]:
            lines.append("image and model: every node has them, nothing to copy")
        same = "run this release already" if report.get("was_running") else "start anew"
        lines.append(f"ranks: {same} ({report['spec']['id']})")
    if len(report.get("engines") or []) > 1:
        lines.append(f"engines: {_report_start.tried(report)}")
    return lines


def markdown(report: Mapping[str, Any]) -> str:
    """The whole report. Parts that the run did not reach are left out."""
    lines = [f"# Deployment {report['name']}: {report['outcome']}", "", f"Written {report['written_at']}.", ""]
    if report.get("failure"):
        lines += ["## What stopped it", "", "```", report["failure"].rstrip(), "```", ""]
        if serving := report.get("serving_after"):
            lines += [serving["words"], ""]
    start = (_report_start.attempts, _report_start.start)
    for part in (_answer, _nodes, _rails, _plan, _told, _copies, *start, _times, _launch):
        lines += part(report)
    return "\n".join(lines).rstrip() + "\n"


def _answer(report: Mapping[str, Any]) -> list[str]:
    answer = report.get("completion")
    if not answer:
        return []
    endpoint = report["spec"]["endpoint"]
    words = (
        f"`{report['spec']['model']['served_name']}` answered on http://{endpoint['bind']}:{endpoint['port']} "
        f"of {report['spec']['ranks'][0]['host']} in {answer['seconds']} s: "
        f"{answer['completion_tokens']} tokens, {answer['tokens_per_second']} tokens/s for this one request."
    )
    streamed = answer.get("streamed") or {}
    rows = [
        ("time to the first token", _measured(streamed, "time_to_first_token", "s")),
        ("prompt until then", _measured(streamed, "prefill_tokens_per_second", "tokens/s")),
        ("answer after it", _measured(streamed, "decode_tokens_per_second", "tokens/s")),
        ("tokens of prompt and answer", f"{streamed.get('prompt_tokens')}, {streamed.get('completion_tokens')}"),
    ]
    return [
        "## Proof",
        "",
        words,
        "",
        *(table(("asked again as a stream", ""), rows) if streamed else []),
        f"- asked: {answer['prompt']!r}",
        f"- answer: {answer['text']!r}",
        "",
    ]


def _measured(figures: Mapping[str, Any], key: str, unit: str) -> str | None:
    return None if figures.get(key) is None else f"{figures[key]:g} {unit}"


def _nodes(report: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            node["host"],
            node["product"],
            node["driver"],
            node["docker"],
            gib(node["memory_total_bytes"]),
            gib(node["memory_available_bytes"]),
        )
        for node in report.get("nodes", [])
    ]
    head = ("node", "product", "driver", "docker", "memory", "available before the run")
    return ["## Nodes", "", *table(head, rows)] if rows else []


def _rails(report: Mapping[str, Any]) -> list[str]:
    rows = [
        (number, rail["subnet"], host, member["netdev"], member["hca"], member["address"], member["gid_index"])
        for number, rail in enumerate(report.get("rails", []))
        for host, member in rail["members"].items()
    ]
    head = ("rail", "subnet", "node", "interface", "HCA", "address", "GID index")
    return ["## Fabric", "", *table(head, rows), *_bandwidth(report.get("fabric") or {})] if rows else []


def _bandwidth(fabric: Mapping[str, Any]) -> list[str]:
    """Measured rates; without any, the words that keep everybody from taking silence for health."""
    entries = fabric.get("entries") or []
    if not entries:
        return ["Bandwidth is unmeasured: nothing here says how fast the rails are.", ""]
    rows = [
        (
            ", ".join(str(rail) for rail in item["rails"]),
            item["source"],
            item["target"],
            gigabits(item["bits_per_second"]),
            gigabits(item["expected_bits_per_second"]) if item["expected_bits_per_second"] else None,
            f"{item['ratio']:.0%}" if item["ratio"] else None,
            item["method"],
            item["class"],
        )
        for item in entries
    ]
    when = " by an earlier run; nothing about the links has changed since" if fabric.get("kept") else ""
    notes = {
        f"- {item['class']}: {item['cause']} {item['remedy']}".rstrip(): None
        for item in entries
        if item["level"] in ("error", "warning")
    }
    head = ("rail", "from", "to", "measured", "expected", "share", "by", "class")
    words = f"Measured {fabric['measured_at']}{when}."
    return [words, "", *table(head, rows), *notes, *([""] if notes else [])]


def _plan(report: Mapping[str, Any]) -> list[str]:
    plan = report.get("plan")
    if not plan:
        return []
    ranks = plan["ranks"]
    head = ("memory", *(f"rank {rank['rank']} ({rank['host']})" for rank in ranks))
    rows = [(term, *(gib(rank.get(key)) for rank in ranks)) for key, term in TERMS]
    words = (
        f"Verdict: **{plan['verdict']}**. Tensor parallel {plan['tp']} over {plan['world_size']} ranks, context "
        f"{plan['context_length']} tokens, up to {plan['max_num_seqs']} sequences. KV cache and linear-attention state "
        f"together get {gib(plan['kv_cache_bytes'])} of each rank. Available memory: {plan['basis']}."
    )
    drawn = [f"![Memory of each rank]({PICTURE})", ""] if ranks else []
    return ["## Plan", "", words, "", *drawn, *table(head, rows)]


def picture(report: Mapping[str, Any]) -> str:
    """The plan as SVG; empty when there is none to draw."""
    plan, spec = report.get("plan") or {}, report.get("spec") or {}
    if not plan.get("ranks"):
        return ""
    name = (spec.get("model") or {}).get("served_name") or report["name"]
    return _plan_svg.svg(_plan_document.document(plan, {"model": {"name": name}}))


def against(plan: Mapping[str, Any], told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was planned beside what the engine printed, with the difference in per cent of what it printed."""
    kv = _plan_document.kv_of(plan)
    ranks = plan.get("ranks") or []
    weights = round(ranks[0]["weights_bytes"] / GIB, 2) if ranks else None
    pairs = (
        ("KV cache size, tokens", kv["tokens"] or None, told.get("kv_cache_tokens")),
        ("requests of full context at once", kv["max_concurrency"] or None, told.get("max_concurrency")),
        ("weights of a rank, GiB", weights, told.get("weights_gib")),
    )
    return [
        {
            "what": what,
            "plan": planned,
            "engine": seen,
            "difference_percent": round(100 * (planned - seen) / seen, 2) if planned is not None and seen else None,
        }
        for what, planned, seen in pairs
        if seen is not None
    ]


def _told(report: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            entry["what"],
            _number(entry["plan"]),
            _number(entry["engine"]),
            None if entry["difference_percent"] is None else f"{entry['difference_percent']:+.2f} %",
        )
        for entry in against(report.get("plan") or {}, report.get("engine_told") or {})
    ]
    head = ("what", "plan", "engine's log", "difference")
    return ["## Plan against engine", "", *table(head, rows)] if rows else []


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}".rstrip("0").rstrip(".")


def _copies(report: Mapping[str, Any]) -> list[str]:
    rows = [
        (
            copy["what"],
            copy["source"],
            copy["host"],
            gigabytes(copy["moved_bytes"]),
            f"{copy['seconds']:.1f} s",
            f"{copy['moved_bytes'] / copy['seconds'] / 1e6:.0f} MB/s" if copy["seconds"] else None,
        )
        for copy in report.get("copies", [])
    ]
    if not rows:
        return ["## Copies", "", "Nothing had to be copied.", ""] if report.get("spec") else []
    return ["## Copies", "", *table(("what", "from", "to", "moved", "time", "rate"), rows)]


def _times(report: Mapping[str, Any]) -> list[str]:
    rows = [(stage["stage"], f"{stage['seconds']:.1f} s") for stage in report.get("stages", [])]
    return ["## Times", "", *table(("stage", "time"), rows)] if rows else []


def _launch(report: Mapping[str, Any]) -> list[str]:
    spec = report.get("spec")
    if not spec:
        return []
    engine = spec["engine"]
    words = f"Release `{spec['id']}`, image `{engine['image']['ref']}`, engine {engine['name']} {engine['version']}."
    lines = ["## Launch", "", words, ""]
    for rank in spec["ranks"]:
        lines += [f"Rank {rank['rank']} on {rank['host']}:", "", "```", _command(spec, rank), "```", ""]
    lines += ["`=NAME` is how NCCL takes an exact name; without the sign it would match by prefix.", ""]
    return lines


def _command(spec: Mapping[str, Any], rank: Mapping[str, Any]) -> str:
    env = "\n".join(f"{key}={value}" for key, value in sorted(rank["env"].items()))
    return f"{env}\n{spec['engine']['entrypoint']} {' '.join(rank['argv'])}"
