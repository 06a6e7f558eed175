# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
#
# Private to this collection: may change without notice.
"""A model on a Hugging Face hub, read by HTTP ranges: some hundred kilobytes instead of some hundred gigabytes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import urllib.error
import urllib.parse
from typing import Any

from ansible.module_utils.urls import open_url

from ansible_collections.gb10.serving.plugins.module_utils._model import inspect
from ansible_collections.gb10.serving.plugins.module_utils._model_directory import Directory, SourceError
from ansible_collections.gb10.serving.plugins.module_utils._safetensors import Shard, read_header

ENDPOINT = "https://huggingface.co"
_FIRST_RANGE = 128 * 1024  # most headers are shorter, so one request is enough
_TIMEOUT = 30  # seconds without an answer
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_PAGE = re.compile(r'<([^>]+)>;\s*rel="next"')

_OFFLINE = (
    "Nothing was downloaded. Give the directory of a model on this machine (a folder that holds only its config.json "
    "is enough for a plan), or try again where the hub can be reached (HF_ENDPOINT names a mirror)."
)


def cache_directory(model_id: str) -> str:
    """Where the hub's own tools keep this model on this machine."""
    home = os.environ.get("HF_HOME") or os.path.join("~", ".cache", "huggingface")
    root = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    return os.path.join(os.path.expanduser(root), "models--" + model_id.replace("/", "--"))


def stored_token() -> str | None:
    """The token of this user, where the hub's own tools look for it."""
    if os.environ.get("HF_TOKEN"):
        return os.environ["HF_TOKEN"]
    home = os.environ.get("HF_HOME") or os.path.join("~", ".cache", "huggingface")
    path = os.environ.get("HF_TOKEN_PATH") or os.path.join(os.path.expanduser(home), "token")
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


class Hub:
    """One revision of one model."""

    def __init__(
        self, model_id: str, revision: str = "main", endpoint: str | None = None, token: str | None = None
    ) -> None:
        self.model_id = model_id
        self.endpoint = (endpoint or os.environ.get("HF_ENDPOINT") or ENDPOINT).rstrip("/")
        self.revision = revision
        self.path = f"{self.endpoint}/{model_id}"
        self._token = token or stored_token()
        self._sha256: dict[str, str] = {}  # of files that the hub keeps as large files
        self._contents: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def files(self) -> tuple[list[tuple[str, int]], list[str]]:
        if not _NAME.fullmatch(self.model_id):
            raise SourceError(
                f"{self.model_id!r} is no model id; expected ORGANISATION/NAME as in the hub's address, for example "
                "Qwen/Qwen3.5-122B-A10B-FP8. Correct the id, or give a directory."
            )
        revision = urllib.parse.quote(self.revision, safe="")
        address: str | None = f"{self.endpoint}/api/models/{self.model_id}/tree/{revision}?recursive=true"
        found: list[tuple[str, int]] = []
        while address:
            try:
                answer = self._open(address)
                entries = json.loads(answer.read())
                following = _PAGE.search(answer.headers.get("Link") or "")
            except (OSError, ValueError) as exc:
                raise SourceError(self._why(exc)) from exc
            for entry in entries if isinstance(entries, list) else []:
                name, size = entry.get("path"), entry.get("size")
                hidden = not isinstance(name, str) or any(part.startswith(".") for part in name.split("/"))
                if entry.get("type") != "file" or hidden or not isinstance(size, int):
                    continue
                found.append((name, size))
                large = entry.get("lfs")
                if isinstance(large, dict) and isinstance(large.get("oid"), str):
                    self._sha256[name] = large["oid"].removeprefix("sha256:")
            address = following.group(1) if following else None
        return sorted(found), []

    def content(self, name: str) -> bytes:
        with self._lock:
            known = self._contents.get(name)
        if known is None:
            known = self._open(self._address(name)).read()
            with self._lock:
                self._contents[name] = known
        return known

    def content_sha256(self, name: str) -> str:
        return self._sha256.get(name) or hashlib.sha256(self.content(name)).hexdigest()

    def shard(self, name: str, size: int) -> Shard:
        first = b""

        def read(offset: int, length: int) -> bytes:
            nonlocal first
            if not first:
                first = self._range(name, 0, min(_FIRST_RANGE, size))
            wanted = first[offset : offset + length]
            if len(wanted) < length and len(first) < size:
                wanted += self._range(name, offset + len(wanted), min(length - len(wanted), size - len(first)))
            return wanted

        try:
            return read_header(name, size, read) if size else Shard(name, 0, problems=[f"{name} is empty on the hub."])
        except OSError as exc:
            return Shard(name, size, problems=[f"{name} cannot be read: {self._why(exc)}"])

    def _address(self, name: str) -> str:
        revision = urllib.parse.quote(self.revision, safe="")
        return f"{self.endpoint}/{self.model_id}/resolve/{revision}/{urllib.parse.quote(name)}"

    def _range(self, name: str, start: int, length: int) -> bytes:
        if length <= 0:
            return b""
        answer = self._open(self._address(name), {"Range": f"bytes={start}-{start + length - 1}"})
        if answer.status != 206:  # the whole file would come
            answer.close()
            raise OSError(f"the server answers {answer.status} to a request for a range")
        return bytes(answer.read(length))

    def _open(self, address: str, headers: dict[str, str] | None = None) -> Any:
        # The token is for the hub alone: a large file is answered by a redirection to another host.
        own = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return open_url(
            address,
            headers={**(headers or {}), **own},
            unredirected_headers=list(own),
            timeout=_TIMEOUT,
            http_agent="gb10.serving",
        )

    def _why(self, exc: Exception) -> str:
        where = f"{self.model_id} at {self.endpoint}"
        if isinstance(exc, urllib.error.HTTPError):
            if exc.code in (401, 403):
                return (
                    f"{where}: the hub answers {exc.code}. The model is private, gated or not there under this name. "
                    "Check the name; accept the model's terms on its page; set HF_TOKEN to a token that may read it."
                )
            if exc.code == 404:
                return f"{where}: there is no such model, or no revision {self.revision}. Check the name and revision."
            return f"{where}: the hub answers {exc.code} ({exc.reason}). Try again later. {_OFFLINE}"
        if isinstance(exc, ValueError):
            return f"{where}: the answer is not the hub's ({exc}). Check HF_ENDPOINT and any proxy. {_OFFLINE}"
        return f"{where} cannot be reached: {getattr(exc, 'reason', None) or exc}. {_OFFLINE}"


def inspect_id(model_id: str, revision: str | None, endpoint: str | None, token: str | None) -> dict[str, Any]:
    """What model_info returns of an id: of the whole copy in this user's cache, else of the hub, else of a part."""
    cached: dict[str, Any] | None = None
    if revision is None and _NAME.fullmatch(model_id):
        directory = Directory(cache_directory(model_id))
        if os.path.isfile(os.path.join(directory.path, "config.json")):
            cached = inspect(directory)
            if cached["complete"]:
                return cached
    found = inspect(Hub(model_id, revision or "main", endpoint, token))
    if found["exists"] or cached is None:
        return found
    return cached
