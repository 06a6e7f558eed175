# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._plan_document import PARTS
from ansible_collections.gb10.serving.plugins.plugin_utils._plan_svg import WIDTH, svg
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.plan_examples import plan, refused, shown

NS = "{http://www.w3.org/2000/svg}"
COLOURS = {colour: words for _key, _letter, words, colour in PARTS}
CASES = {
    "fits": plan(),
    "refused": refused(),
    "no sum": plan(verdict="refused", ranks=[], reasons=["a < b & c"]),
}


def bars(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [rect for rect in root.iter(f"{NS}rect") if rect.find(f"{NS}title") is not None]


@pytest.mark.parametrize("found", CASES.values(), ids=list(CASES))
def test_it_is_xml_that_stands_alone(found: dict[str, Any]) -> None:
    text = svg(shown(found))
    root = ElementTree.fromstring(text)
    assert root.tag == f"{NS}svg"
    without_name = text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|@import|url\(|<script|href", without_name)
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("found", CASES.values(), ids=list(CASES))
def test_it_says_in_words_what_it_shows(found: dict[str, Any]) -> None:
    root = ElementTree.fromstring(svg(shown(found)))
    title, desc = root.find(f"{NS}title"), root.find(f"{NS}desc")
    assert title is not None and desc is not None and root.get("role") == "img"
    assert (root.get("aria-labelledby") or "").split() == [title.get("id"), desc.get("id")]
    assert 'm <1> & "two"' in (title.text or "") and desc.text


def test_every_part_is_drawn_to_scale_inside_the_picture() -> None:
    root = ElementTree.fromstring(svg(shown()))
    found = bars(root)
    assert len(found) == 2 * 8  # two ranks; nothing is left free
    first = {rect.get("fill"): float(rect.get("width") or 0) for rect in found[:8]}
    assert first["#2f6fbb"] / sum(first.values()) == pytest.approx(0.5, abs=0.001)  # 60 of 120 GiB
    for rect in found:
        assert float(rect.get("x") or 0) + float(rect.get("width") or 0) <= WIDTH


def test_the_legend_names_each_part_with_its_size() -> None:
    texts = [element.text for element in ElementTree.fromstring(svg(shown())).iter(f"{NS}text")]
    assert "weights: 60.0 GiB" in texts and "KV cache: 34.0 GiB" in texts
    assert not any("left free" in (text or "") for text in texts)


def test_what_is_too_much_is_marked() -> None:
    root = ElementTree.fromstring(svg(shown(refused())))
    assert len(list(root.iter(f"{NS}line"))) == 2
    assert any("34.0 GiB too much" in (element.text or "") for element in root.iter(f"{NS}text"))


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colour", [colour for colour, words in COLOURS.items() if words != "left free"])
def test_white_letters_can_be_read_on_every_part(colour: str) -> None:
    assert 1.05 / (luminance(colour) + 0.05) >= 4.5


def test_every_figure_in_a_bar_has_its_unit() -> None:
    texts = [element.text or "" for element in ElementTree.fromstring(svg(shown())).iter(f"{NS}text")]
    assert not any(text.replace(".", "").isdigit() for text in texts)


def test_expert_parallel_is_in_the_title() -> None:
    settings = {"tp": 2, "pp": 1, "ep": 2, "context_length": 8}
    root = ElementTree.fromstring(svg(shown({**plan(), "settings": settings})))
    assert "tensor parallel 2, expert parallel" in str(root.findtext(f"{NS}title"))
