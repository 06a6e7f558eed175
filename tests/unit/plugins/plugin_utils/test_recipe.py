# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gb10.serving.plugins.plugin_utils import _recipe

SHIPPED = Path(__file__).parents[4] / "playbooks" / "recipes"
GOOD = {"gb10_model_id": "a/b", "gb10_image_ref": "c:1"}


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


def test_path_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="does not exist"):
        _recipe.locate("./mine.yml", [str(SHIPPED)])
