#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Rehearsal nodes on this machine: containers that look like GB10 machines to Ansible.

rehearse.py up [--nodes N]          make N nodes (default: as many as run now, else 2)
rehearse.py status | info           what runs, for people | as JSON
rehearse.py load-image NODE IMAGE   image (archive or reference) into one node's dockerd
rehearse.py put-model NODE DIR      model directory to one node
rehearse.py docker-host             DOCKER_HOST of the engine in use; starts one when there is none
rehearse.py down [--purge]          remove everything; with --purge the cached images too
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path

from rehearsal import _engine, _image, _nodes, _packages, _state, _transfer
from rehearsal._settings import DEFAULT_NODES, MAX_NODES, PREFIX, Places, find_node, make_nodes, places
from rehearsal._shell import Problem, as_root, run, say


def up(where: Places, count: int | None) -> int:
    with _state.locked(where):
        nodes = make_nodes(count or len(_state.nodes_of(_state.load(where))) or DEFAULT_NODES)
        # mmdebstrap also where a registry gives the nodes their base: the engine image is built with it afterwards.
        _packages.ensure_tools(["ssh", "ssh-keygen", "ip", "mmdebstrap"])
        if _engine.find(where) is None and not _engine.crashed(where):
            _nodes.refuse_taken()  # before a minute is spent on the image
        engine = _engine.ensure(where)
        image = _image.ensure(engine, where)
        key = _state.ensure_key(where)
        _nodes.ensure_networks(engine)
        changed = _nodes.ensure_nodes(engine, where, nodes, image, key)
        _nodes.wait_ready(engine, nodes)
        hosts = _state.known_hosts_text(_state.host_keys(engine, nodes), nodes)
        _image.remove_older(engine, image)
        saved = _state.save(where, _state.describe(engine, where, nodes, image), hosts)
        _state.check_ssh(where, nodes)
        _nodes.check_rails(engine, nodes)
    say("up", f"{len(nodes)} nodes ready: {', '.join(n.name for n in nodes)}; "
        + (f"changed: {', '.join(changed) or 'state'}" if changed or saved else "nothing changed"))  # fmt: skip
    say(
        "up",
        f"inventory: {where.root / 'inventories' / 'rehearsal'}; log in: ssh -F {where.ssh_config} {nodes[0].name}",
    )
    return 0


def down(where: Places, purge: bool) -> int:
    with _state.locked(where):
        engine = _engine.find(where)
        if _engine.crashed(where):
            engine = _engine.ensure(where)
        if engine:
            own = [n for n, e in _nodes.list_containers(engine).items() if e["checkout"] in ("", str(where.root))]
            _nodes.remove_containers(engine, own)
            if not _nodes.list_containers(engine):
                _nodes.remove_networks(engine)
            if purge and not engine.own:
                _purge_images(engine)
        stopped = _engine.stop(where)
        if stopped:
            for folder in ("/run/containerd/s", "/run/containerd"):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        if purge and where.cache.exists():
            say("purge", f"removing {where.cache}")
            run([*as_root(), "rm", "-rf", "--one-file-system", str(where.cache)])
            with contextlib.suppress(OSError):
                where.cache.parent.rmdir()
        _state.remove(where)
    say("down", "nothing is left" + ("" if purge else f"; cached images stay in {where.cache} or the docker engine"))
    return 0


def _purge_images(engine: _engine.Engine) -> None:
    tags = engine.docker("image", "ls", "--format", "{{.Repository}}:{{.Tag}}").split()
    for tag in tags:
        if tag.startswith(f"{PREFIX}/"):
            say("purge", f"removing image {tag}")
            engine.try_docker("image", "rm", "-f", tag)


def status(where: Places) -> int:
    """Exit code 0 when every node of the state runs, else 3."""
    nodes = _state.nodes_of(_state.load(where))
    engine = _engine.find(where)
    print(f"engine  {f'docker {engine.version} at {engine.docker_host}' if engine else 'none answers'}"
          + (" (own)" if engine and engine.own else ""))  # fmt: skip
    if not nodes:
        print("nodes   none; make them by: python3 tests/nodes/rehearse.py up")
        return 3
    found = _nodes.list_containers(engine) if engine else {}
    running = [found.get(node.container, {}).get("running", False) for node in nodes]
    for node, runs in zip(nodes, running, strict=True):
        rails = " ".join(rail["address"] for rail in node.describe()["rails"])
        print(f"{node.name}  {'running' if runs else 'NOT running'}  {node.management}  {rails}")
    return 0 if all(running) else 3


def info(where: Places) -> int:
    state = _state.load(where)
    engine = _engine.find(where) if state else None
    found = _nodes.list_containers(engine) if engine else {}
    for node in (state or {}).get("nodes", []):
        node["running"] = found.get(node["container"], {}).get("running", False)
    print(json.dumps(state or {"version": 1, "nodes": []}, indent=2))
    return 0


def bring(where: Places, what: str, node_name: str, source: str) -> int:
    state = _state.load(where)
    engine = _engine.find(where)
    if not state or not engine:
        raise Problem("No rehearsal nodes are up. Make them first: python3 tests/nodes/rehearse.py up")
    node = find_node(_state.nodes_of(state), node_name)
    if what == "load-image":
        _transfer.load_image(engine, node, source)
    else:
        _transfer.put_model(engine, node, Path(source))
    return 0


def docker_host(where: Places) -> int:
    with _state.locked(where):
        print(_engine.ensure(where).docker_host)
    return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verb = verbs.add_parser("up", help="make the nodes, or do nothing when they are as wanted")
    verb.add_argument("--nodes", type=int, choices=range(1, MAX_NODES + 1), metavar=f"1..{MAX_NODES}")
    verb = verbs.add_parser("down", help="remove nodes, networks, volumes and our own engine")
    verb.add_argument("--purge", action="store_true", help="remove the cached images too")
    verbs.add_parser("status", help="for people; exit code 3 unless all nodes run")
    verbs.add_parser("info", help="the state as JSON")
    verbs.add_parser("docker-host", help="DOCKER_HOST of the engine in use")
    verb = verbs.add_parser("load-image", help="an image into a node's dockerd")
    verb.add_argument("node")
    verb.add_argument("source", metavar="ARCHIVE|REFERENCE")
    verb = verbs.add_parser("put-model", help="a model directory to a node")
    verb.add_argument("node")
    verb.add_argument("source", metavar="DIR")
    return parser.parse_args(arguments)


def main() -> int:
    chosen = parse(sys.argv[1:])
    where = places()
    try:
        if chosen.verb == "up":
            return up(where, chosen.nodes)
        if chosen.verb == "down":
            return down(where, chosen.purge)
        if chosen.verb == "status":
            return status(where)
        if chosen.verb == "info":
            return info(where)
        if chosen.verb == "docker-host":
            return docker_host(where)
        return bring(where, chosen.verb, chosen.node, chosen.source)
    except (Problem, ValueError) as error:
        print(f"rehearse.py {chosen.verb}: {error}", file=sys.stderr)
        if chosen.verb == "up":
            print("What is half made goes away with: python3 tests/nodes/rehearse.py down", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"rehearse.py {chosen.verb}: interrupted; run it again to go on, or: rehearse.py down", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
