# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: the states of model_sync.
from __future__ import annotations

import socket
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gb10.serving.plugins.module_utils import (
    _model,
    _model_copy,
    _model_fetch,
    _model_state,
    _offer,
)
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._model_manifest import present_sums
from ansible_collections.gb10.serving.plugins.module_utils._sync import carry_out, owner_setter

_DAMAGED = (
    "the content is not what was copied or downloaded. Offer the model on a node that has it right and give that as "
    "sources; only these files are fetched."
)


def handed_on(module: AnsibleModule) -> dict[str, Any]:
    """The offer of a node that is a receiver itself."""
    wanted = _model_state.destination(module.params["path"], module.params["manifest"] or {})
    facts = {"path": wanted.path, "digest": wanted.digest, "total_bytes": sum(wanted.sizes.values())}
    handler = _model_copy.FollowingModel(wanted)
    return facts if module.check_mode else dict(facts, **_open(module, handler))


def _open(module: AnsibleModule, handler: _offer.Handler) -> dict[str, Any]:
    return _offer.open_offer(
        module.params["addresses"],
        module.params["port"],
        module.params["allowed"],
        module.params["idle_timeout"] or 120,
        lambda _session: handler,
    )


def offered(module: AnsibleModule) -> dict[str, Any]:
    if module.params["following"]:
        return dict(handed_on(module), changed=True)
    host = socket.gethostname()
    model = _model.inspect(module.params["path"])
    wanted = (module.params["manifest"] or {}).get("digest")
    if not model["complete"]:
        raise JobError(
            f"The model at {model['path']} on {host} is not complete, so it cannot be offered: "
            f"{' '.join(model['problems'][:3])}"
        )
    if wanted and wanted != model["digest"]:
        raise JobError(
            f"The model at {model['path']} on {host} has the digest {model['digest']}, expected {wanted}: it "
            "changed since it was looked at. Run again from the start."
        )
    changed = _differing(model, module.params["manifest"] or {})
    if changed:
        raise JobError(
            f"{changed[0]} at {model['path']} on {host} holds something else than the manifest says: the model changed "
            "since it was looked at. Run again from the start."
        )
    facts = {key: model[key] for key in ("path", "digest", "total_bytes")}
    if module.check_mode:
        return dict(facts, changed=True)
    sizes = _model_state.check_manifest(model)
    return dict(facts, changed=True, **_open(module, _model_copy.WholeModel(model["path"], sizes)))


def _differing(model: dict[str, Any], manifest: dict[str, Any]) -> list[str]:
    """The files of an offered model that are known to hold something else than the manifest says."""
    sums = _model_state.manifest_sums(manifest)
    sizes = {entry["name"]: entry["size"] for entry in model["files"] if entry["name"] in sums}
    here = present_sums(model["path"], sizes)
    return [name for name in sizes if here.get(name, sums[name]) != sums[name]]


def present(module: AnsibleModule) -> dict[str, Any]:
    host = socket.gethostname()
    wanted = _model_state.destination(module.params["path"], module.params["manifest"])
    state, wrong = wanted.observe()
    answer: dict[str, Any] = {"path": wanted.path, "digest": wanted.digest, "moved_bytes": 0, "seconds": 0.0}
    diff = {"before": "".join(f"to copy: {name}\n" for name in wrong) or f"{state}\n", "after": "ok\n"}
    own = owner_setter(module.params["owner"], module.params["group"], wanted.path)
    full = module.params["verify"] == "full" and state != "incomplete"
    if state == "ok" and not full:
        return dict(answer, changed=False, verified=wanted.verified())
    if state == "unmarked" and not full and module.check_mode:
        return dict(answer, changed=True, diff=diff, verified=False)
    # Nobody says yet that this folder was ever compared: it is read once, when somebody knows what it should hold.
    recognise = state == "unmarked" and not full
    full = full or recognise
    obstacle = wanted.obstacle() if state == "incomplete" else None
    if obstacle:
        raise JobError(f"{obstacle} This is on {host}.")
    moves = sum(wanted.sizes[name] for name in wrong) - wanted.staged_bytes(wrong)
    lack = wanted.lack_of_space(moves)
    if lack:
        raise JobError(lack)
    if module.check_mode and not full:
        return dict(answer, changed=True, moved_bytes=moves, diff=diff)
    sources = module.params["sources"] or []
    if not sources and not full:
        raise JobError(
            f"The model at {wanted.path} on {host} lacks {len(wrong)} of {len(wanted.sizes)} files "
            f"({moves / 1e9:.2f} GB) or differs from {wanted.digest}, "
            "and no source was given. Offer it on a node that has it."
        )
    idle = module.params["idle_timeout"] or 300
    verify = full or module.params["verify"] == "full"
    check_mode, streams = module.check_mode, module.params["streams"]

    def work(progress: Progress) -> dict[str, Any]:
        fetch = _model_fetch.Fetch(wanted, sources, progress, own, max(1, streams))
        if recognise and not fetch.all_known():
            wanted.mark(wanted.path, verified=False)
            own(wanted.marker(wanted.path))
            return dict(answer, changed=True, verified=False)
        bad = fetch.verify(wrong) if verify else []
        moves = sum(wanted.sizes[name] for name in bad)
        if full and (not bad or check_mode):
            changed = bool(bad) or state == "unmarked" or not wanted.verified()
            if changed and not bad and not check_mode:
                fetch.note()
                wanted.mark(wanted.path)
                own(wanted.marker(wanted.path))
            return dict(answer, changed=changed, moved_bytes=moves, damaged=bad, verified=not bad)
        if not sources:
            raise JobError(f"{', '.join(bad[:5])}: {_DAMAGED}")
        found = {"damaged": bad} if verify else {}
        return dict(fetch.run(bad), changed=True, path=wanted.path, **found)

    return dict(carry_out(module, work, idle), diff=diff)
