# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
# Private to this collection: no stability promised.
"""Whether all ranks would run the same. The engines do not ask: unequal ranks hang, or answer nonsense. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.serving.plugins.module_utils._rank_refused import CAUSE, other_image

from ._problems import Problem

#: What a spec takes once for all ranks, by the option of deployment_spec, and the user's variable.
SHARED = {
    "name": "gb10_server_name",
    "engine": "gb10_server_engine",
    "image_ref": "gb10_image_ref",
    "model_id": "gb10_model_id",
    "served_name": "gb10_model_served_name",
    "args": "gb10_server_args",
    "env": "gb10_server_env",
    "secret_env": "gb10_server_secret_env",
    "env_override": "gb10_server_env_override",
    "port": "gb10_server_port",
    "rendezvous_port": "gb10_server_rendezvous_port",
    "gpus": "gb10_server_gpus",
    "rdma": "gb10_server_rdma",
    "ulimits": "gb10_server_ulimits",
}

#: Options whose values are never shown.
SECRET = frozenset({"secret_env"})


def check_wishes(used: Mapping[str, Any], given: Mapping[str, Mapping[str, Any]], first: str) -> list[Problem]:
    """Whether a host was given something else than what all ranks will get.

    Args:
        used: the options of deployment_spec, as they apply to all ranks.
        given: variables by host; a host that has none of its own takes what is used.
        first: the host whose variables are used.
    """
    problems = []
    for option, variable in SHARED.items():
        # As it was written, too: the option may have made a list of a text.
        same = [_plain(used.get(option)), _plain(given.get(first, {}).get(variable))]
        for host, variables in given.items():
            value = variables.get(variable)
            if value is None or used.get(option) is None or _plain(value) in same:
                continue
            shown = isinstance(value, Mapping) or option not in SECRET
            seen, expected = _shown(value, used[option]) if shown else ("another one", "the same values")
            problems.append(
                Problem(
                    host,
                    f"{variable} is {seen}.",
                    f"{expected}, as on {first}: all ranks are made from one specification.",
                    f"give {variable} once for group 'sparks' or in the recipe, not to single hosts.",
                    CAUSE,
                )
            )
    return problems


def check_ranks(
    spec: Mapping[str, Any], images: Mapping[str, Mapping[str, Any]], models: Mapping[str, Mapping[str, Any]]
) -> list[Problem]:
    """Whether every node still has the image and the model that the spec was made with.

    Args:
        spec: the deployment's spec.
        images: by host, the image of the spec's reference, as rank_info returns it.
        models: by host, what model_info returns. Files beside a model that was copied do not make it another one.
    """
    problems = []
    for host, image in images.items():
        if found := other_image(spec, image):
            problems.append(Problem(host, found["seen"], found["expected"], found["remedy"], CAUSE))
    wanted = spec["model"]["digest"]
    for host, model in models.items():
        if model["digest"] == wanted or (model["complete"] and model.get("copied_digest") == wanted):
            continue
        if model["complete"]:
            seen, cause = f"the model in {model['path']} is {model['digest']}.", CAUSE
        else:
            seen, cause = f"the model in {model['path']} is not complete: {' '.join(model['problems'])}", _INCOMPLETE
        remedy = "let nothing else write there, and deploy again: it copies what differs."
        problems.append(Problem(host, seen, f"{wanted}, with which release {spec['id']} was made.", remedy, cause))
    return problems


_INCOMPLETE = "model_incomplete"


def message(problems: Sequence[Problem]) -> str:
    """All of them, with what they mean for what runs."""
    lines = "\n".join(f"  - {problem}" for problem in problems)
    return f"The ranks would not run the same, so none of them was stopped or started.\n{lines}"


def _plain(value: Any) -> Any:
    """The same for what means the same in an inventory: 8000 and '8000', true and 'True'."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    text = str(value)
    return {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(text.lower(), text)


def _shown(value: Any, used: Any) -> tuple[str, str]:
    """Both in words. Of a mapping, which may have secrets in it, only what differs is named."""
    if not isinstance(value, Mapping) or not isinstance(used, Mapping):
        return repr(value), repr(used)
    here, there = _plain(value), _plain(used)
    names = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
    return f"another one, in {', '.join(names)}", "the same values"
