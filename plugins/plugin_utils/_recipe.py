# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Recipes: a vars file that names a model, an image, an engine and how to serve."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Mapping
from typing import Any

#: What a recipe may set. Where things are on the nodes (directories, addresses, ports) belongs to the inventory.
KEYS = frozenset(
    {
        "gb10_model_id",
        "gb10_model_dir",
        "gb10_model_served_name",
        "gb10_image_ref",
        "gb10_image_pull",
        "gb10_image_build",
        "gb10_server_engine",
        "gb10_server_args",
        "gb10_server_env",
        "gb10_plan_context_length",
        "gb10_plan_max_num_seqs",
        "gb10_plan_max_num_batched_tokens",
        "gb10_plan_kv_cache_dtype",
        "gb10_plan_kv_cache_gib",
        "gb10_plan_tp",
    }
)

#: Without these there is nothing to deploy.
REQUIRED = ("gb10_model_id", "gb10_image_ref")


def locate(name: str, directories: Collection[str]) -> str:
    """The file of recipe ``name``: a path as it stands, or a plain name looked up as NAME.yml in ``directories``.

    Raises:
        ValueError: no such file; the message lists the recipes that there are.
    """
    if os.sep in name or name.endswith((".yml", ".yaml")):
        if os.path.isfile(name):
            return name
        raise ValueError(f"recipe file {name} does not exist. Next step: correct gb10_recipe.")
    shipped: set[str] = set()
    for directory in directories:
        path = os.path.join(directory, f"{name}.yml")
        if os.path.isfile(path):
            return path
        if os.path.isdir(directory):
            shipped |= {entry[:-4] for entry in os.listdir(directory) if entry.endswith(".yml")}
    near = difflib.get_close_matches(name, shipped, 1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise ValueError(
        f"recipe '{name}' is not known; there are: {', '.join(sorted(shipped)) or 'none'}.{hint} "
        "Next step: correct gb10_recipe, or give the path of your own file."
    )


def check(values: Any, path: str) -> dict[str, Any]:
    """The recipe's variables, if they are a recipe's.

    Raises:
        ValueError: not a mapping, a key that no recipe may set, or a required key missing.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"{path} is not a list of variables. Expected: 'gb10_model_id: ...' and so on.")
    for key in values:
        if key not in KEYS:
            near = difflib.get_close_matches(str(key), KEYS, 1)
            hint = f"Did you mean '{near[0]}'?" if near else f"A recipe may set {', '.join(sorted(KEYS))}."
            raise ValueError(f"{path} sets '{key}', which is not for a recipe to set. {hint}")
    for key, value in values.items():
        if "{{" in repr(value) or "{%" in repr(value):
            raise ValueError(f"{path}: {key} holds a Jinja expression, which is not evaluated there. Write the value.")
    missing = [key for key in REQUIRED if not values.get(key)]
    if missing:
        raise ValueError(f"{path} does not set {' and '.join(missing)}. Next step: add it.")
    return dict(values)
