# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gb10.serving.plugins.plugin_utils import _recipe

SHIPPED = Path(__file__).parents[4] / "playbooks" / "recipes"
MODEL = {"gb10_model_id": "a/b"}
GOOD = {**MODEL, "gb10_image_ref": "c:1"}
BOTH: dict[str, Any] = {"gb10_server_engines": ["sglang", "vllm"]}
SETTINGS: dict[str, dict[str, Any]] = {
    "sglang": {"gb10_image_ref": "s:1", "gb10_server_args": ["--x"]},
    "vllm": {"gb10_image_ref": "v:1", "gb10_plan_kv_cache_gib": 4},
}
TWO = {**MODEL, **BOTH, "gb10_plan_tp": 2, "gb10_server_engine_settings": SETTINGS}
DEFAULTS = SHIPPED.parents[1] / "roles" / "gb10_defaults" / "defaults" / "main.yml"


def test_every_shipped_recipe_is_one() -> None:
    paths = sorted(SHIPPED.glob("*.yml"))
    assert "qwen35_122b_fp8.yml" in [path.name for path in paths]
    for path in paths:
        assert _recipe.check(yaml.safe_load(path.read_text()), path.name)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["x"], "not a list of variables"),
        ({**GOOD, "gb10_server_arg": []}, "Did you mean 'gb10_server_args'?"),
        ({**GOOD, "gb10_server_port": 1}, "not for a recipe to set"),
        ({**GOOD, "gb10_server_args": ["{{ x }}"]}, "holds a Jinja expression"),
        ({"gb10_model_id": "a/b"}, "does not set gb10_image_ref"),
        ({**GOOD, "gb10_server_engines": ["sglang", "vlm"]}, "engine 'vlm' is not known"),
        ({**GOOD, "gb10_server_engines": {"vllm": {}}}, "Expected: a list"),
        ({**GOOD, "gb10_server_engines": ["vllm", "vllm"]}, "names vllm twice"),
        ({**GOOD, "gb10_server_engines": ["vllm"], "gb10_server_engine": "vllm"}, "Expected: one of them"),
        ({**GOOD, "gb10_server_engine_settings": {"vllm": {}}}, "engines that gb10_server_engines names (none)"),
        ({**GOOD, **BOTH, "gb10_server_engine_settings": {"vllm": []}}, "Expected: 'sglang: {gb10_image_ref"),
        ({**GOOD, **BOTH, "gb10_server_engine_settings": {"vllm": {"gb10_server_arg": []}}}, "'gb10_server_args'?"),
        ({**GOOD, **BOTH, "gb10_server_engine_settings": {"vllm": {"gb10_model_id": "x"}}}, "not for an engine to set"),
        ({**MODEL, **BOTH, "gb10_server_engine_settings": {"vllm": {"gb10_image_ref": "v:1"}}}, "(for sglang)"),
    ],
)
def test_refused(values: Any, words: str) -> None:
    with pytest.raises(ValueError, match=r"my\.yml") as error:
        _recipe.check(values, "my.yml")
    assert words in str(error.value)


def test_plain_name_is_looked_up() -> None:
    assert _recipe.locate("qwen35_122b_fp8", [str(SHIPPED)]) == str(SHIPPED / "qwen35_122b_fp8.yml")


def test_unknown_name_gets_a_hint() -> None:
    with pytest.raises(ValueError, match="Did you mean 'qwen35_122b_fp8'"):
        _recipe.locate("qwen35_122b", [str(SHIPPED)])


def test_a_path_begins_where_the_user_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yml").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("mine.yml", "./mine.yml", "~/mine.yml", str(tmp_path / "mine.yml")):
        assert _recipe.locate(name, [str(SHIPPED)]) == str(tmp_path / "mine.yml")


def test_path_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="does not exist"):
        _recipe.locate("./mine.yml", [str(SHIPPED)])


def taken(values: dict[str, Any], given: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    """What has to be set for each engine."""
    found = _recipe.engines(_recipe.check(values, "my.yml"), given or {}, {"hosts": ["a", "b"]}, "my.yml")
    return {engine["name"]: {entry["name"]: entry["value"] for entry in engine["variables"]} for engine in found}


def test_what_an_engine_does_not_set_goes_back_to_its_default() -> None:
    defaults = yaml.safe_load(DEFAULTS.read_text())
    assert {key: defaults[key] for key in _recipe.OF_AN_ENGINE} == _recipe.OF_AN_ENGINE
    found = taken(TWO)
    assert list(found) == ["sglang", "vllm"]
    assert found["sglang"] == {
        "gb10_image_ref": "s:1",
        "gb10_server_args": ["--x"],
        "gb10_plan_kv_cache_gib": 0,
        "gb10_server_engine": "sglang",
    }
    assert found["vllm"]["gb10_server_args"] == [] and found["vllm"]["gb10_plan_kv_cache_gib"] == 4
    assert taken({**TWO, "gb10_server_args": ["--y"]})["vllm"]["gb10_server_args"] == ["--y"]


def test_inventory_and_command_line_win() -> None:
    found = taken(TWO, {"gb10_server_args": ["--z"], "gb10_server_engines": "vllm, sglang"})
    assert list(found) == ["vllm", "sglang"]
    assert all("gb10_server_args" not in variables for variables in found.values())
    assert taken(TWO, {"gb10_server_engine": "vllm"}) == {
        "vllm": {"gb10_image_ref": "v:1", "gb10_plan_kv_cache_gib": 4}
    }
    one: dict[str, Any] = {
        "gb10_server_engines": ["sglang"],
        "gb10_server_engine_settings": {"sglang": SETTINGS["sglang"]},
    }
    assert list(taken({**TWO, **one})) == ["sglang"]
    with pytest.raises(ValueError, match="'vlm' is not known"):
        taken(TWO, {"gb10_server_engines": "vlm"})


def test_one_engine_of_a_list_is_named_too() -> None:
    one = {**GOOD, "gb10_server_engines": ["sglang"]}
    assert taken(one) == {"sglang": {"gb10_server_engine": "sglang"}}


def test_a_recipe_without_engines_needs_nothing_set() -> None:
    assert taken(GOOD) == {"vllm": {}}
    assert taken({**GOOD, "gb10_server_engine": "sglang"}) == {"sglang": {}}


def test_a_key_follows_all_that_is_asked_of_an_engine() -> None:
    def keys(values: dict[str, Any], given: dict[str, Any] | None = None, hosts: str = "ab") -> list[str]:
        return [engine["key"] for engine in _recipe.engines(values, given or {}, {"hosts": list(hosts)}, "my.yml")]

    usual = keys(TWO)
    other = {**SETTINGS, "vllm": {**SETTINGS["vllm"], "gb10_image_ref": "v:2"}}
    assert keys({**TWO, "gb10_server_engine_settings": other})[0] == usual[0]
    assert keys({**TWO, "gb10_server_engine_settings": other})[1] != usual[1]
    assert set(keys(TWO, hosts="abc")).isdisjoint(usual)
    assert set(keys(TWO, {"gb10_plan_tp": 4})).isdisjoint(usual)
    assert keys(TWO, {"gb10_server_engines": ["vllm", "sglang"]}) == usual[::-1]
