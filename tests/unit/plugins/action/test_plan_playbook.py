# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""plan.yml as a user runs it: no node, no root, a folder that holds only a config.json."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[4]
CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "dtype": "bfloat16",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "tie_word_embeddings": False,
    "attention_bias": False,
}
KEYS = {"verdict", "ranks", "kv", "settings", "changes", "terms", "options", "expected_log", "flags"}
RANK = {
    "rank", "weights_bytes", "state_bytes", "kv_bytes", "activation_bytes", "graphs_bytes", "non_torch_bytes",
    "reserve_bytes", "free_bytes",
}  # fmt: skip


class Run:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = folder / "model"
        self.model.mkdir()
        (self.model / "config.json").write_text(json.dumps(CONFIG))

    def __call__(self, *extra: str, model: bool = True) -> tuple[int, str, dict[str, Any]]:
        """(exit status, what was printed, the JSON). Values go as on the command line: all of them text."""
        output = self.folder / "plan.json"
        words = [f"gb10_plan_output={output}", *([f"gb10_model_dir={self.model}"] if model else []), *extra]
        done = subprocess.run(
            [
                Path(sys.executable).with_name("ansible-playbook"),
                ROOT / "playbooks" / "plan.yml",
                *(part for word in words for part in ("-e", word)),
            ],
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "LANG": "C.UTF-8",
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_NOCOLOR": "1",
            },
            text=True,
            capture_output=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr, json.loads(output.read_text()) if output.exists() else {}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_plan_that_fits(run: Run) -> None:
    status, text, plan = run(
        "gb10_plan_nodes=2",
        "gb10_plan_tp=2",
        "gb10_plan_context_length=32768",
        "gb10_plan_kv_cache_dtype=fp8",
        "gb10_plan_gpu_memory_utilization=0.75",
        "gb10_plan_max_num_seqs=16",
        "gb10_plan_engine_version=0.33.0",
        f"gb10_plan_svg={run.folder / 'plan.svg'}",
    )
    assert status == 0, text
    assert set(plan) >= KEYS and (plan["verdict"], len(plan["ranks"])) == ("fits", 2)
    assert all(set(rank) >= RANK for rank in plan["ranks"])
    settings = plan["settings"]
    assert (settings["tp"], settings["context_length"], settings["max_num_seqs"]) == (2, 32768, 16)
    assert (settings["kv_cache_dtype"], settings["gpu_memory_utilization"]) == ("fp8", 0.75)
    # 48 layers x 2 KV heads of a rank x (128 + 128) x 1 byte
    assert plan["kv"]["bytes_per_token_per_rank"] == 24576
    assert {"name", "bytes", "uncertainty_bytes", "formula", "source"} == set(plan["terms"][0])
    assert "rank 1, node 2  [W" in text and "It fits" in text
    assert ElementTree.parse(run.folder / "plan.svg").getroot().tag.endswith("svg")


def test_contexts_are_compared_when_nothing_is_said(run: Run) -> None:
    status, text, plan = run()
    assert status == 0, text
    assert [(row["name"], row["settings"]["context_length"]) for row in plan["options"]] == [
        ("as planned", 40960),
        ("32k", 32768),
    ]


def test_variants_in_one_table(run: Run) -> None:
    variants = [{"name": "one", "tp": 1}, {"name": "four", "tp": "4", "kv_cache_dtype": "fp8"}]
    status, text, plan = run(json.dumps({"gb10_plan_options": variants}))
    assert status == 0, text
    assert [(row["name"], row["settings"]["tp"]) for row in plan["options"]] == [("one", 1), ("four", 4)]
    assert plan["settings"]["tp"] == 1 and "  four    fits" in text


def test_the_options_of_the_readme_end_well_where_one_fits(run: Run) -> None:
    readme = (ROOT / "README.md").read_text()
    (options,) = re.findall(r"-e '(\{\"gb10_plan_options\": .*\})'$", readme, re.MULTILINE)
    large = {**CONFIG, "num_experts": 320}  # about 140 GiB in 16 bits, as is the model of that page in 8
    (run.model / "config.json").write_text(json.dumps(large))
    status, text, plan = run(options)
    assert status == 0, text
    assert [row["verdict"] for row in plan["options"]] == ["refused", "fits"] and plan["verdict"] == "refused"
    assert "Of the options 'two, fp8 cache' fits." in text


def test_a_refusal_is_written_before_it_fails(run: Run) -> None:
    small = ["gb10_plan_nodes=1", "gb10_plan_memory_bytes=51539607552", "gb10_plan_context_length=40960"]
    status, text, plan = run(*small)
    assert status != 0 and plan["verdict"] == "refused" and plan["changes"]
    assert "This model does not fit 1 node with these settings" in text
    assert "Use 2 nodes" in text.split("What would help")[1]
    status, _text, plan = run(*small, "gb10_plan_fail=false")
    assert status == 0 and plan["verdict"] == "refused"


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (
            ["gb10_plan_tp=3", "gb10_plan_nodes=3"],
            ["gb10_plan_tp=3", "attention heads (32)", "Set gb10_plan_tp to 2 on 3 nodes"],
        ),
        (["gb10_plan_memory_bytes=0"], ["gb10_plan_memory_bytes: it is '0'", "the bytes of a node's memory"]),
        (["gb10_plan_context_length=99999"], ["gb10_plan_context_length=99999", "at most 40960"]),
        (["gb10_plan_measure=true"], ["gb10_plan_measure: group 'sparks' has no host"]),
        (["gb10_server_engine=vlm"], ["gb10_server_engine: it is 'vlm'", "one of vllm, sglang"]),
        (["gb10_plan_contxt_length=5"], ["gb10_plan_contxt_length", "use gb10_plan_context_length instead"]),
        (["gb10_plan_memory_bytes=121"], ["did you mean GiB? Write gb10_plan_memory_bytes=129922760704."]),
        (["gb10_plan_tensor_parallel=2"], ["gb10_plan_tensor_parallel", "use gb10_plan_tp instead"]),
        (["gb10_plan_options=foo"], ["gb10_plan_options: it is 'foo'", "a list of mappings"]),
        (
            ['{"gb10_server_args": ["--max-model-len", "8192", "--block-size", "\u00b2"]}'],
            ["--max-model-len is given, which the plan and the spec decide", "--block-size is '\u00b2'"],
        ),
        (["gb10_plan_output=/nowhere/x.json"], ["gb10_plan_output", "'/nowhere/x.json' cannot be written"]),
    ],
)
def test_a_bad_value_is_named_with_what_is_accepted(run: Run, extra: list[str], words: list[str]) -> None:
    status, text, plan = run(*extra)
    flat = " ".join(text.split())
    assert status != 0 and [word for word in words if word not in flat] == [], text
    assert "Traceback" not in text and "_AnsibleTagged" not in text and "It does not fit" not in text
    if extra != ["gb10_plan_output=/nowhere/x.json"]:
        # Nobody takes the file of an earlier run for the answer to this one.
        assert plan["verdict"] == "refused" and plan["reasons"]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ([], ["gb10_model_dir: no model is named"]),
        (["gb10_model_dir=/no/such/folder"], ["gb10_model_dir: it is '/no/such/folder'", "holds config.json"]),
    ],
)
def test_without_a_model(run: Run, extra: list[str], words: list[str]) -> None:
    status, text, _plan = run(*extra, model=False)
    flat = " ".join(text.split())
    assert status != 0 and [word for word in words if word not in flat] == [], text


def test_no_host_of_an_inventory_is_contacted(run: Run) -> None:
    inventory = run.folder / "hosts.yml"
    inventory.write_text(
        json.dumps({"sparks": {"hosts": {"spark-a": {"ansible_host": "192.0.2.1", "ansible_become": True}}}})
    )
    done = subprocess.run(
        [
            Path(sys.executable).with_name("ansible-playbook"),
            *(ROOT / "playbooks" / "plan.yml", "-i", inventory, "-e", f"gb10_model_dir={run.model}"),
        ],
        cwd=run.folder,
        env={**os.environ, "HOME": str(run.folder), "ANSIBLE_NOCOLOR": "1"},
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    assert "spark-a" not in done.stdout
