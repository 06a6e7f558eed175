# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""Layers -> groups that draw blocks from one pool, by vLLM's rules. Pure.

Every group takes whole blocks of one size. Three ways lead there: all layers alike are one group; pages of several
sizes are made equal (longer blocks, or padding) and the layers split into groups of one length; or, where an attention
kernel packs pages side by side, groups of different layers share a block as wide as the widest of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ansible_collections.gb10.serving.plugins.plugin_utils._memory_kv_specs import Spec

Member = tuple[int, Spec]
_NAMES = {"full": "full", "chunked": "sliding", "sliding": "sliding", "sliding_latent": "sliding", "state": "linear"}


@dataclass(frozen=True)
class Group:
    """Layers with one block table."""

    members: tuple[Member, ...]

    @property
    def name(self) -> str:
        kind = self.members[0][1].kind
        return _NAMES.get(kind, kind)

    @property
    def block(self) -> int:
        return self.members[0][1].block

    def page(self, layers: range | None = None) -> int:
        """Bytes of one block of the group, of those layers only where they are given."""
        return sum(spec.page for at, spec in self.members if layers is None or at in layers)

    def blocks_of(self, length: int, in_flight: int) -> int:
        return max(spec.blocks_of(length, in_flight) for spec in {spec for _at, spec in self.members})


def group_layers(members: Sequence[Member], packed: bool) -> list[Group]:
    """The groups, in the order in which they arise."""
    if len({spec.family for _at, spec in members}) == 1:
        return [Group(tuple(members))]
    if packed and len({spec.page for _at, spec in members}) > 1:
        return _packed(members)
    return _equal_pages(_unify(members))


def _unify(members: Sequence[Member]) -> list[Member]:
    """Pages as large as the largest: by more tokens in a block where that divides, by padding where not."""
    largest = max(spec.page for _at, spec in members)

    def grown(spec: Spec) -> Spec:
        if spec.kind != "state" and largest % spec.page == 0:
            return replace(spec, block=spec.block * (largest // spec.page), page=largest)
        return replace(spec, page=largest)

    return [(at, grown(spec)) for at, spec in members]


def _buckets(members: Sequence[Member], key: str) -> list[list[Member]]:
    found: dict[object, list[Member]] = {}
    for at, spec in members:
        found.setdefault(spec if key == "spec" else spec.family, []).append((at, spec))
    return list(found.values())


def _split(members: Sequence[Member], groups: int) -> Iterable[Group]:
    """Every n-th layer to one group, so that each pipeline stage has its share of each."""
    return (Group(tuple(members[n::groups])) for n in range(groups))


def _equal_pages(members: Sequence[Member]) -> list[Group]:
    """Groups as long as the rarest kind of layer, or the most frequent where that wastes little; last ones padded."""
    buckets = _buckets(members, "spec")
    smallest, largest = min(map(len, buckets)), max(map(len, buckets))
    size = largest if largest < 1.5 * smallest else smallest
    return [group for bucket in buckets for group in _split(bucket, math.ceil(len(bucket) / size))]


def _least_padding(counts: Sequence[int], least: int) -> int:
    """The length of a group that leaves the fewest places empty; the longest of equally good ones."""
    return min(range(least, max((*counts, least)) + 1), key=lambda size: (sum(-n % size for n in counts), -size))


@dataclass(frozen=True)
class _Bucket:
    members: list[Member]

    @property
    def pages(self) -> dict[int, list[Member]]:
        found: dict[int, list[Member]] = {}
        for member in self.members:
            found.setdefault(member[1].page, []).append(member)
        return found

    @property
    def balanced(self) -> bool:
        """As many layers of each page size: a pattern that repeats."""
        return len({len(layers) for layers in self.pages.values()}) == 1

    @property
    def repeats(self) -> int:
        return max(len(layers) for layers in self.pages.values())

    def widest(self, groups: int) -> int:
        return sum(math.ceil(len(layers) / groups) * page for page, layers in self.pages.items())


def _packed(members: Sequence[Member]) -> list[Group]:
    buckets = [_Bucket(bucket) for bucket in _buckets(members, "family")]
    whole = [bucket.repeats for bucket in buckets if bucket.balanced and len(bucket.pages) > 1]
    repeats = _least_padding([b.repeats for b in buckets if b.balanced], max(whole)) if whole else None

    def groups_of(bucket: _Bucket) -> int:
        return math.ceil(bucket.repeats / repeats) if bucket.balanced and repeats else 1

    def is_state(bucket: _Bucket) -> bool:
        kind = bucket.members[0][1].kind
        return kind in ("state", "ring") or (repeats is None and kind.startswith("sliding"))

    anchor = max(b.widest(len(b.members) if is_state(b) else groups_of(b)) for b in buckets)
    result: list[Group] = []
    for bucket in buckets:
        count = groups_of(bucket)
        if is_state(bucket):  # no wider than the block already is
            fit = max(1, anchor // bucket.members[0][1].page)
            count = max(count, math.ceil(len(bucket.members) / fit))
        if count == 1:
            result.append(Group(tuple(bucket.members)))
            continue
        pattern = list(zip(*bucket.pages.values(), strict=True))
        result += [Group(tuple(m for repeat in pattern[n::count] for m in repeat)) for n in range(count)]
    return result


def padded_tuples(members: Sequence[Member]) -> list[Group]:
    """DeepSeek-V4 before 0.29: the full layers are one group, of whose page sizes the windowed layers take the next."""
    full = [member for member in members if member[1].kind == "full"]
    sizes = {spec.page for _at, spec in full}
    windowed = _buckets([member for member in members if member[1].kind != "full"], "family")
    counts = [_Bucket(bucket).repeats for bucket in (full, *windowed)]
    repeats, result = _least_padding(counts, counts[0]), [Group(tuple(full))]
    for bucket in windowed:
        wider = [(at, replace(s, page=min((w for w in sizes if w >= s.page), default=s.page))) for at, s in bucket]
        pattern = list(zip(*_Bucket(wider).pages.values(), strict=False))
        groups = math.ceil(len(pattern) / repeats)
        result += [Group(tuple(m for repeat in pattern[n::groups] for m in repeat)) for n in range(groups)]
    return result


def slots(groups: Sequence[Group], layers: range, rule: str) -> int:
    """Bytes of a block that has, of each page size, as many places as the group with most layers of that size."""
    places: dict[int, int] = {}
    for group in groups:
        pages = [spec.page for at, spec in group.members if at in layers]
        for page in set(pages):
            places[page] = max(places.get(page, 0), pages.count(page))
    if rule == "tuples":
        return sum(places) * max(places.values(), default=0)
    return sum(page * count for page, count in places.items())


def stages(layers: int, drafts: int, pipeline: int) -> list[range]:
    """The layers of each pipeline stage: even, what is over to the stages before the last; drafts with the last."""
    sizes = [layers // pipeline] * pipeline
    for n in range(2, layers % pipeline + 2):
        sizes[-n] += 1
    starts = [sum(sizes[:n]) for n in range(pipeline + 1)]
    ends = [*starts[1:-1], layers + drafts]
    return [range(start, end) for start, end in zip(starts, ends, strict=False)]
