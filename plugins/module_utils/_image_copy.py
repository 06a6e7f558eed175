# SPDX-License-Identifier: BSD-2-Clause
# Copyright (c) 2026 gb10.serving contributors
# Private to gb10.serving: streams an image from docker save on one node to docker load on another.
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable
from typing import IO, Any, cast

from ansible_collections.gb10.serving.plugins.module_utils import _image
from ansible_collections.gb10.serving.plugins.module_utils._job import JobError, Progress
from ansible_collections.gb10.serving.plugins.module_utils._offer import Handler
from ansible_collections.gb10.serving.plugins.module_utils._wire import (
    CHUNK,
    DATA,
    END,
    WireError,
    connect,
    read_frames,
    send_frame,
    send_json,
)

#: Like AnsibleModule.run_command for one argv: (rc, stdout, stderr)
Runner = Callable[[list[str]], "tuple[int, str, str]"]
_F_SETPIPE_SZ = 1031


def run(argv: list[str], timeout: float | None = 120) -> tuple[int, str, str]:
    try:
        # Not run_command: this also runs in the detached worker, where there is no module any more.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        return 127, "", f"{argv[0]} is not installed on this node"
    except subprocess.TimeoutExpired:
        return 124, "", f"'{' '.join(argv[:3])}' did not answer within {timeout:g} s"
    return done.returncode, done.stdout, done.stderr


def inspect(ref: str, runner: Runner = run) -> dict[str, Any]:
    """The image facts; absent is an answer, a Docker that does not answer is a JobError."""
    code, out, err = runner(["docker", "image", "inspect", ref])
    if code == 0:
        return _image.describe(ref, out)
    if "no such image" in err.lower():
        return _image.absent(ref)
    raise JobError(
        f"'docker image inspect {ref}' ended with {code}: {err.strip()[-500:]}. Expected the image or 'No such "
        "image'. "
        "Is Docker installed and running on this node, and may this user talk to it (become, or group docker)?"
    )


def docker_root(runner: Runner = run) -> str | None:
    code, out, _err = runner(["docker", "info", "--format", "{{.DockerRootDir}}"])
    return out.strip() or None if code == 0 else None


def _pump(process: subprocess.Popen[bytes], sock: socket.socket) -> int:
    source, view, sent = cast(IO[bytes], process.stdout), memoryview(bytearray(CHUNK)), 0
    with contextlib.suppress(OSError):
        fcntl.fcntl(source.fileno(), _F_SETPIPE_SZ, CHUNK)
    while True:
        count = source.readinto(view)  # type: ignore[attr-defined]
        if not count:
            return sent
        send_frame(sock, DATA, view[:count])
        sent += count


def send_image(commands: list[list[str]]) -> Handler:
    """Handler of an offer: one docker save per receiver, its end status in the last frame."""

    def handle(sock: socket.socket, request: dict[str, Any]) -> None:
        if request.get("op") != "save":
            send_frame(sock, END, json.dumps({"rc": 1, "error": f"unknown request {request.get('op')!r}"}).encode())
            return
        status: dict[str, Any] = {}
        for command in commands:
            with tempfile.TemporaryFile() as errors:
                # Not run_command: it would hold the whole image in memory.
                process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, bufsize=0
                )
                try:
                    sent = _pump(process, sock)
                    code = process.wait()
                finally:
                    if process.poll() is None:
                        process.kill()
                        process.wait()
                    if process.stdout:
                        process.stdout.close()
                errors.seek(0)
                text = errors.read()[-2000:].decode("utf-8", "replace").strip()
            status = {
                "rc": code,
                "bytes": sent,
                "error": "" if code == 0 else f"'{' '.join(command)}' ended with {code}: {text}",
            }
            if code == 0 or sent:
                break
        send_frame(sock, END, json.dumps(status).encode())

    return handle


class _LoadEnded(Exception):
    """docker load closed its input before the end of the stream."""


def receive(sock: socket.socket, progress: Progress, command: list[str]) -> int:
    """Streams into docker load. Returns the bytes; JobError when either end failed."""
    root = docker_root()

    def free_blocks() -> object:
        with contextlib.suppress(OSError):
            return os.statvfs(root).f_bfree if root else None
        return None

    with tempfile.TemporaryFile() as output:
        try:
            # Not run_command: the image is streamed into it.
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT, bufsize=0
            )
        except OSError as error:
            raise JobError(f"cannot run {command[0]}: {error}") from error
        stdin = cast(IO[bytes], process.stdin)

        def said() -> str:
            output.seek(0)
            return output.read()[-2000:].decode("utf-8", "replace").strip()

        def stop() -> None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            process.kill()

        progress.on_abort(stop)

        def sink(data: memoryview) -> None:
            done = 0
            try:
                while done < len(data):
                    done += stdin.write(data[done:]) or 0
            except OSError as error:
                raise _LoadEnded from error
            progress.add(len(data))

        try:
            send_json(sock, {"op": "save"})
            progress.begin("copy")
            status = read_frames(sock, sink)
            if status.get("rc") != 0:
                raise JobError(
                    f"the source could not save the image: {status.get('error')}. Nothing was loaded; put the "
                    "source right and run again."
                )
            if status.get("bytes") != progress.bytes_done:
                raise JobError(f"the source sent {status.get('bytes')} bytes, {progress.bytes_done} came. Run again.")
            progress.signs = free_blocks
            progress.begin("load")
            stdin.close()
            if process.wait() != 0:
                raise JobError(
                    f"docker load ended with {process.returncode}: {said()}. In short: {_image.load_problem(said())}."
                )
        except _LoadEnded as error:
            process.wait()
            raise JobError(
                f"docker load ended early with {process.returncode}: {said()}. In short: {_image.load_problem(said())}."
            ) from error
        except (OSError, WireError) as error:
            raise JobError(
                f"the stream from the source broke after {progress.bytes_done} bytes: {error}. Nothing was loaded. "
                "Look at the source node (is it up, is Docker running there, was the offer withdrawn?) and run again."
            ) from error
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            with contextlib.suppress(OSError):
                stdin.close()
    return progress.bytes_done


def _must(runner: Runner, argv: list[str]) -> None:
    code, _out, err = runner(argv)
    if code != 0:
        raise JobError(f"'{' '.join(argv)}' ended with {code}: {err.strip()[-500:]}")


def _drop_untagged(runner: Runner, image_id: str) -> None:
    """Removes an image that lost its last name; one that carries another name or is in use is the user's and stays."""
    code, out, _err = runner(["docker", "image", "inspect", "--format", "{{len .RepoTags}}", image_id])
    if code == 0 and out.strip() == "0":
        runner(["docker", "image", "rm", image_id])


def fetch(
    ref: str, content: str, source: dict[str, Any], idle_timeout: float, progress: Progress, runner: Runner = run
) -> dict[str, Any]:
    """Makes the image content present under its reference. The one before stays as REPOSITORY:gb10-previous."""
    before = inspect(ref, runner)
    kept_ref = _image.previous_ref(ref)
    kept = inspect(kept_ref, runner)
    if kept["present"] and kept["content"] == content:  # going back costs nothing
        _must(runner, ["docker", "tag", kept["id"], ref])
        if before["present"]:
            _must(runner, ["docker", "tag", before["id"], kept_ref])
        return {"moved_bytes": 0, "content": content, "previous": kept_ref if before["present"] else None}
    try:
        sock = connect(source["address"], source["port"], source["token"], idle_timeout + 10)
    except WireError as error:
        raise JobError(str(error)) from error
    if before["present"]:
        _must(runner, ["docker", "tag", before["id"], kept_ref])
    try:
        with sock:
            moved = receive(sock, progress, ["docker", "load"])
        progress.begin("verify")
        after = inspect(ref, runner)
        if after["content"] != content:
            raise JobError(
                f"after the copy {ref} has the content {after['content']}, expected {content}. Was the image "
                "changed on the source meanwhile? Run again."
            )
    except JobError:
        if before["present"]:  # as it was
            runner(["docker", "tag", before["id"], ref])
        runner(["docker", "tag", kept["id"], kept_ref] if kept["present"] else ["docker", "image", "rm", kept_ref])
        raise
    if kept["present"] and before["present"] and kept["id"] != before["id"]:
        _drop_untagged(runner, kept["id"])
    return {"moved_bytes": moved, "content": content, "previous": kept_ref if before["present"] else None}
