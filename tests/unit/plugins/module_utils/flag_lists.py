# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Flags of some releases from compact lists: as engine_info returns them, and as a parser like the engine's."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "fixtures" / "flags"
RELEASES = sorted(path.stem for path in FOLDER.glob("*.txt"))

LINE = re.compile(r"(?P<names>[^=#~{(]+?)? ?(?P<mark>=[?+*]?)?(?:\{(?P<choices>.*)\})?(?:\((?P<known>.*)\))?"
                  r"(?: #(?P<default>\S+))?(?P<deprecated> +~)?")  # fmt: skip


def read(line: str) -> dict[str, Any]:
    found = LINE.fullmatch(line)
    assert found and found["names"], line
    names = found["names"].split()
    shown = [name for name in names if not name.startswith("!")]
    metavar = shown[0].lstrip("-").replace("-", "_").upper()
    choices = found["choices"].split(",") if found["choices"] else []
    known = found["known"].split(",") if found["known"] else []
    metavar = "{" + ",".join(choices) + "}" if choices else str(known) if known else metavar
    mark = found["mark"] or ""
    form = {"": "", "=": "{0}", "=?": "[{0}]", "=+": "{0} [{0} ...]", "=*": "[{0} ...]"}[mark]
    return {
        "name": shown[0].strip("<>"),
        "aliases": shown[1:],
        "negatives": [name[1:] for name in names if name.startswith("!")],
        "hidden": [],
        "takes_value": {"": "no", "=": "one", "=?": "optional"}.get(mark, "many"),
        "metavar": form.format(metavar) or None,
        "choices": choices,
        "known": known,
        "default": found["default"],
        "deprecated": "Deprecated." if found["deprecated"] else None,
        "positional": shown[0].startswith("<"),
    }


def flags(release: str) -> list[dict[str, Any]]:
    lines = (FOLDER / f"{release}.txt").read_text().splitlines()
    return [read(line) for line in lines if not line.startswith("#")]


def found(release: str) -> dict[str, Any]:
    """What engine_info would say of an image with this release."""
    name, version = release.split("-", 1)
    return {"name": name, "version": version, "reason": None, "flags": flags(release), "flags_reason": None}


class Pair(argparse.Action):
    """A flag with names that turn it off."""

    def __call__(self, *_args: Any) -> None:
        pass


class Refused(Exception):
    """The command line is not one."""


class Engine(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise Refused(message)


def parser(release: str, **settings: Any) -> Engine:
    """argparse with the flags of a release; its help is what an engine of that release would print."""
    result = Engine(prog=f"{release.split('-')[0]} serve", add_help=False, **settings)
    for flag in flags(release):
        if flag["positional"]:
            result.add_argument(flag["name"], nargs="?", help="what to serve")
            continue
        names = [flag["name"], *flag["aliases"], *flag["negatives"]]
        text = f"{flag['deprecated']} " if flag["deprecated"] else "Words about it. "
        text += f"(default: {flag['default']})" if flag["default"] else ""
        if flag["takes_value"] == "no":
            result.add_argument(*names, nargs=0, action=Pair, help=text)
            continue
        nargs = {"one": None, "optional": "?"}.get(flag["takes_value"], "*" if flag["metavar"][0] == "[" else "+")
        metavar = str(flag["known"]) if flag["known"] else None
        result.add_argument(*names, nargs=nargs, choices=flag["choices"] or None, metavar=metavar, help=text)
    return result
