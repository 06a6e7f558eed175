# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""From config.json alone: the weights of a rank against the parameters that vLLM's own classes create."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_model import Engine, Wishes
from ansible_collections.gb10.serving.plugins.plugin_utils._memory_weights import tp_problems, weight_terms
from ansible_collections.gb10.serving.tests.unit.plugins.plugin_utils.truth_models import (
    SIZES,
    TRUTH,
    VARIANTS,
    model_of,
)

ENGINE = Engine.of({"name": "vllm", "version": "0.32.0"})
ACCEPTED = [(name, tp) for name, entry in TRUTH.items() for tp in SIZES if entry["bytes"][str(tp)]]
REFUSED = [(name, tp) for name, entry in TRUTH.items() for tp in SIZES if not entry["bytes"][str(tp)]]


def test_there_are_models_of_every_family() -> None:
    assert len(TRUTH) > 50
    assert len(ACCEPTED) > 200
    assert len(REFUSED) > 5


@pytest.mark.parametrize("name", TRUTH)
def test_weights_of_a_rank_are_what_the_engine_allocates(name: str) -> None:
    model = model_of(name)
    for tp in SIZES:
        expected = TRUTH[name]["bytes"][str(tp)]
        if not expected:
            continue
        terms = weight_terms(model, tp, Wishes())
        # The copy of MLA's latent projection is made after loading: it is no parameter.
        planned = sum(term.bytes for term in terms)
        assert planned == pytest.approx(expected, rel=0.003), f"tp {tp}"
        assert tp_problems(model, tp, ENGINE) == []


@pytest.mark.parametrize(("name", "tp"), REFUSED)
def test_a_size_that_the_engine_refuses_is_refused(name: str, tp: int) -> None:
    assert tp_problems(model_of(name), tp, ENGINE)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(str(x) for x in list(v.values())[:-1]))
def test_weights_of_a_rank_with_other_ways_of_sharing(variant: dict[str, Any]) -> None:
    wishes = Wishes.of({key: variant.get(key) for key in ("vision_sharded", "language_model_only")})
    tp, pp, stage = variant["tp"], variant.get("pp", 1), variant.get("stage", 0)
    terms = weight_terms(model_of(variant["model"]), tp, wishes, ep=tp if variant.get("ep") else 1, pp=pp, stage=stage)
    planned = sum(term.bytes for term in terms)
    assert planned == pytest.approx(variant["bytes"], rel=0.004)
