# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Recipes: a vars file that names a model, an image, an engine and how to serve."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Mapping
from typing import Any

from . import _engines, _fallback

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
        "gb10_server_engines",
        "gb10_server_engine_settings",
        "gb10_server_args",
        "gb10_server_env",
        "gb10_server_env_override",
        "gb10_plan_context_length",
        "gb10_plan_max_num_seqs",
        "gb10_plan_max_num_batched_tokens",
        "gb10_plan_kv_cache_dtype",
        "gb10_plan_kv_cache_gib",
        "gb10_plan_tp",
    }
)

#: What may differ from engine to engine, with what holds where nobody says anything: the defaults of the roles.
OF_AN_ENGINE: dict[str, Any] = {
    "gb10_image_ref": "",
    "gb10_image_pull": "missing",
    "gb10_image_build": {},
    "gb10_server_args": [],
    "gb10_server_env": {},
    "gb10_server_env_override": False,
    "gb10_plan_context_length": 0,
    "gb10_plan_max_num_seqs": 0,
    "gb10_plan_max_num_batched_tokens": 0,
    "gb10_plan_kv_cache_dtype": "auto",
    "gb10_plan_kv_cache_gib": 0,
    "gb10_plan_tp": 0,
}

#: What says which engines there are; not part of what one of them is asked for.
OF_ALL_ENGINES = ("gb10_server_engine", "gb10_server_engines", "gb10_server_engine_settings")

#: Without these there is nothing to deploy.
REQUIRED = ("gb10_model_id", "gb10_image_ref")


def locate(name: str, directories: Collection[str]) -> str:
    """The file of recipe ``name``: a path, or a plain name looked up as NAME.yml in ``directories``.

    A relative path begins where the user is; Ansible would read it from the playbook's folder.

    Raises:
        ValueError: no such file; the message lists the recipes that there are.
    """
    if os.sep in name or name.endswith((".yml", ".yaml")):
        path = os.path.abspath(os.path.expanduser(name))
        if os.path.isfile(path):
            return path
        raise ValueError(f"recipe file {path} does not exist. Next step: correct gb10_recipe.")
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
    settings = values.get("gb10_server_engine_settings") or {}
    _check_settings(settings, path)
    names = names_of(values.get("gb10_server_engines"), path)
    if names and "gb10_server_engine" in values:
        raise ValueError(
            f"{path} sets gb10_server_engine and gb10_server_engines. Expected: one of them. Next step: take one out."
        )
    if stray := [name for name in settings if name not in names]:
        raise ValueError(
            f"{path}: gb10_server_engine_settings has {', '.join(map(str, stray))}. Expected: engines that "
            f"gb10_server_engines names ({', '.join(names) or 'none'}). Next step: add it there or take it out here."
        )
    everywhere = bool(names) and all((settings.get(name) or {}).get("gb10_image_ref") for name in names)
    missing = [key for key in REQUIRED if not values.get(key) and not (key == "gb10_image_ref" and everywhere)]
    if missing:
        without = [name for name in names if not (settings.get(name) or {}).get("gb10_image_ref")]
        words = f" (for {', '.join(without)})" if without and missing == ["gb10_image_ref"] else ""
        raise ValueError(f"{path} does not set {' and '.join(missing)}{words}. Next step: add it.")
    return dict(values)


def names_of(value: Any, path: str) -> list[str]:
    """The engines of ``gb10_server_engines``: a list, or on the command line also words with commas between them.

    Raises:
        ValueError: no list, an engine that is not known, or one that is named twice.
    """
    names = [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value or []
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path}: gb10_server_engines is {value!r}. Expected: a list such as [sglang, vllm].")
    for number, name in enumerate(names):
        try:
            _engines.get(name)
        except ValueError as error:
            raise ValueError(f"{path}: gb10_server_engines: {error}. Next step: correct it.") from None
        if name in names[:number]:
            raise ValueError(f"{path}: gb10_server_engines names {name} twice. Next step: take one out.")
    return [str(name) for name in names]


def _check_settings(settings: Any, path: str) -> None:
    what = f"{path}: gb10_server_engine_settings"
    if not isinstance(settings, Mapping) or not all(isinstance(part, Mapping) for part in settings.values()):
        raise ValueError(f"{what} is not settings by engine. Expected: 'sglang: {{gb10_image_ref: ...}}' and so on.")
    for name, part in settings.items():
        for key in part:
            if key not in OF_AN_ENGINE:
                near = difflib.get_close_matches(str(key), OF_AN_ENGINE, 1)
                hint = f"Did you mean '{near[0]}'?" if near else f"An engine may set {', '.join(sorted(OF_AN_ENGINE))}."
                raise ValueError(f"{what} sets '{key}' for {name}, which is not for an engine to set. {hint}")


def engines(
    values: Mapping[str, Any], given: Mapping[str, Any], place: Mapping[str, Any], path: str
) -> list[dict[str, Any]]:
    """The engines to try, in their order.

    Args:
        values: the recipe as :func:`check` returned it.
        given: what inventory and command line set of the variables that a recipe may set; they win.
        place: what else a start depends on: hosts, container options.
        path: of the recipe, for messages.

    Returns:
        For each engine its ``name``, the ``variables`` that have to be set for its turn and the ``key`` of all that is
        asked for. An engine that inventory or command line name by gb10_server_engine is the only one.

    Raises:
        ValueError: what inventory or command line set is not usable.
    """
    settings = {**values, **given}.get("gb10_server_engine_settings") or {}
    _check_settings(settings, path)
    names = names_of({**values, **given}.get("gb10_server_engines"), path)
    single = "gb10_server_engine" in given or not names
    if single:
        names = [str({**values, **given}.get("gb10_server_engine", "vllm"))]
    varying = sorted({key for name in names for key in settings.get(name) or {}} - set(given))
    found = []
    for name in names:
        own = settings.get(name) or {}
        taken = {key: own.get(key, values.get(key, OF_AN_ENGINE[key])) for key in varying}
        if not single:
            taken["gb10_server_engine"] = name
        asked = {key: value for key, value in {**values, **given, **taken}.items() if key not in OF_ALL_ENGINES}
        wishes = {"engine": name, "asked": asked, "place": place}
        found.append({"name": name, "variables": as_variables(taken), "key": _fallback.key(wishes)})
    return found


def as_variables(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For a loop of ``set_fact``."""
    return [{"name": key, "value": value} for key, value in sorted(values.items())]
