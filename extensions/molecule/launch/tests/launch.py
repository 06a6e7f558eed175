# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Runs of the real playbook against the nodes: what they said and when, measured from what had happened."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from nodes import HEAD, NODES, OTHER, ROOT, Line, Log, Serving, serving, shell, until

ENGINES = ROOT / "tests" / "engines"
RECIPES = {"vllm": "recipe.yml", "sglang": "recipe-sglang.yml"}
#: What the recipes set; a variable of the command line replaces all of it.
RECIPE_ENV = {"OMP_NUM_THREADS": "1"}
ENV = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_FORCE_COLOR": "0"}
#: Seconds within which a rank that stands still is named, once its allowance is over, and one that has died.
PROMPT = 5.0
#: By how much a rank may seem to be named too early: it may have been the other one that printed last.
EARLY = 2.0
NAMED = re.compile(r"rank (?P<rank>\d) did not start: (?P<cause>\w+) \(")


class Run:
    """One run of a playbook, whose lines are kept with the times at which they came."""

    def __init__(self, playbook: str, reports: Path, **extra: Any) -> None:
        variables = {"gb10_report_dir": str(reports), "gb10_fabric_measure": "never", **extra}
        self.reports = reports
        self.lines: list[Line] = []
        self.begun = time.time()
        self.process = subprocess.Popen(
            [
                "ansible-playbook", str(ROOT / "playbooks" / f"{playbook}.yml"),
                "-i", str(ROOT / "inventories" / "rehearsal"), "-e", json.dumps(variables),
            ],
            env=ENV, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        self.reports.mkdir(parents=True, exist_ok=True)
        with (self.reports / "output.txt").open("w", buffering=1) as stream:
            for line in self.process.stdout:
                self.lines.append(Line(time.time(), line.rstrip()))
                stream.write(f"{self.lines[-1].at - self.begun:6.1f} {line}")

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    @property
    def seconds(self) -> float:
        return round(self.lines[-1].at - self.begun, 1)

    def first(self, words: str) -> Line:
        found = next((line for line in self.lines if words in line.text), None)
        assert found, f"not said: {words}\n{self.text[-6000:]}"
        return found

    def comes(self, words: str, seconds: float = 240) -> None:
        """Until the run says this."""

        def said() -> bool:
            found = words in self.text
            assert found or self.process.poll() is None, self.text[-6000:]
            return found

        until(f"the run says {words!r}", said, seconds)

    def _end(self) -> int:
        code = self.process.wait(timeout=400)
        self.reader.join(10)
        assert "Traceback" not in self.text.partition("did not start")[0], self.text[-6000:]
        return code

    def passes(self) -> dict[str, Any]:
        """It ends well; its report."""
        assert self._end() == 0, self.text[-8000:]
        return self.report()

    def stops(self, *words: str) -> dict[str, Any]:
        """It fails and says all of these words; its report, empty when there is none."""
        assert self._end() != 0, self.text[-3000:]
        missing = [word for word in words if word not in self.words]
        assert not missing, f"not said: {missing}\n{self.text[-8000:]}"
        return self.report()

    def named(self, cause: str) -> tuple[Line, int]:
        """When the cause was said first, and which rank was said to have it. No other cause was."""
        for line in self.lines:
            if found := NAMED.search(line.text):
                assert found["cause"] == cause, f"said: {line.text}\n{self.text[-8000:]}"
                return line, int(found["rank"])
        raise AssertionError(f"no cause was said, expected {cause}\n{self.text[-8000:]}")

    def report(self) -> dict[str, Any]:
        found = sorted(self.reports.glob("main/*/report.json"))
        return dict(json.loads(found[-1].read_text())) if found else {}


class Launch:
    """Deploys with something wrong in it, and what came of them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys, self.count = folder, capsys, 0
        self.logs: list[Log] = []
        self.runs: list[Run] = []

    def deploy(self, engine: str = "vllm", env: dict[str, str] | None = None, **extra: Any) -> Run:
        self.count += 1
        if env is not None:
            extra = {"gb10_server_env": {**RECIPE_ENV, **env}, "gb10_server_env_override": True, **extra}
        variables = {"gb10_recipe": str(ENGINES / RECIPES[engine]), **extra}
        self.runs.append(Run("deploy", self.folder / f"run{self.count}", **variables))
        return self.runs[-1]

    def recipe_of_both(self, env: dict[str, str]) -> str:
        """A recipe with SGLang, in this environment, and vLLM for when it does not start."""
        recipes = {name: yaml.safe_load((ENGINES / file).read_text()) for name, file in RECIPES.items()}
        own = ("gb10_image_ref", "gb10_server_args", "gb10_server_env", "gb10_plan_kv_cache_gib")
        settings = {name: {key: recipe[key] for key in own if key in recipe} for name, recipe in recipes.items()}
        settings["sglang"]["gb10_server_env"].update(env)
        settings["sglang"]["gb10_server_env_override"] = True
        shared = {key: recipes["vllm"][key] for key in recipes["vllm"] if key not in (*own, "gb10_server_engine")}
        path = self.folder / "both.yml"
        engines = {"gb10_server_engines": ["sglang", "vllm"], "gb10_server_engine_settings": settings}
        path.write_text(yaml.safe_dump({**shared, **engines}))
        return str(path)

    def status(self) -> dict[str, Any]:
        output = self.folder / "status.json"
        run = Run("status", self.folder, gb10_status_output=str(output))
        run.process.wait(timeout=120)
        return dict(json.loads(output.read_text()))

    def follow(self, before: Serving) -> list[Log]:
        """The logs of the ranks that start next, by rank."""
        self.logs = [Log(rank, before.release) for rank in range(len(NODES))]
        return self.logs

    def tell(self, case: str, run: Run, **figures: Any) -> None:
        """A line of figures for people and for whoever compares runs."""
        with self.capsys.disabled():
            print(f"\nLAUNCH {json.dumps({'case': case, **figures, 'run_s': run.seconds})}", flush=True)

    def stands_still(self, case: str, run: Run, cause: str, allowance: float) -> int:
        """The run named a rank that stood still, with this cause, when its allowance was over; the rank."""
        said, rank = run.named(cause)
        last = [found.at for log in self.logs if (found := log.last(said.at))]
        assert last, "no rank printed anything"
        late = round(said.at - max(last) - allowance, 1)
        self.tell(case, run, cause=cause, rank=rank, allowance_s=allowance, late_s=late)
        assert -EARLY <= late <= PROMPT
        return rank

    def promptly(self, case: str, run: Run, event: float, said: Line, cause: str, rank: int | None = None) -> None:
        """What had happened was said in time."""
        seconds = round(said.at - event, 1)
        self.tell(case, run, cause=cause, rank=rank, event_to_message_s=seconds)
        assert seconds <= PROMPT

    def close(self) -> None:
        """Nothing goes on when a test has failed in between."""
        for run in self.runs:
            if run.process.poll() is None:
                run.process.send_signal(signal.SIGINT)
                run.process.wait(timeout=60)
        for log in self.logs:
            log.close()


def serves_again(before: Serving) -> None:
    """What served before the run serves after it."""
    after = serving()
    assert after is not None, "nothing serves"
    assert after.release == before.release


def serves_still(before: Serving) -> None:
    """What served before the run was never stopped."""
    assert serving() == before


@pytest.fixture(scope="module")
def home_network() -> Iterator[None]:
    """As at home: the default route leads to a network in which the nodes do not reach each other, like some Wi-Fi."""
    state = json.loads((ROOT / ".rehearsal" / "state.json").read_text())
    addresses = {node["name"]: node["management"] for node in state["nodes"]}
    peer = {HEAD: addresses[OTHER], OTHER: addresses[HEAD]}
    gateway = f"{addresses[HEAD].rpartition('.')[0]}.1"
    for host in NODES:
        shell(host, f"ip route replace default via {gateway}; iptables -I INPUT -s {peer[host]} -j DROP")
    yield
    for host in NODES:
        shell(host, f"iptables -D INPUT -s {peer[host]} -j DROP; ip route del default")


@pytest.fixture
def launch(home_network: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Launch]:
    found = Launch(tmp_path, capsys)
    yield found
    found.close()


@pytest.fixture
def previous(launch: Launch) -> Serving:
    """The deployment that serves when a test begins; where none does, one is made."""
    found = serving()
    if found is None:
        launch.deploy().passes()
        found = serving()
    assert found is not None, "the product's own settings do not serve"
    return found
