# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
#
# `make` lists the targets. All of them are safe to repeat.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := $(CURDIR)/.venv/bin
export PATH := $(BIN):$(PATH)
# The checkout's own settings, also for tools that start ansible from another folder.
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
# No bytecode between the sources: gates that list files run beside gates that import them.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.cache/pycache

GATE := .ci/gate
# Pure gates: no node, no root. They run two at a time; the longest come first.
GATES := gate-sanity gate-ansible-lint gate-mypy gate-unit gate-build gate-docs gate-ruff gate-yamllint gate-variables gate-changelog gate-reuse
.PHONY: help env test gates lint unit sanity docs build-check format molecule molecule-distribute molecule-launch rehearse rehearse-up rehearse-down clean $(GATES)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

env: ## make .venv, the development environment, with the newest Python that ansible-core supports
	@.ci/packages
	@.ci/env

test: env ## everything that CI runs: all gates, then the molecule scenario on rehearsal nodes
	@$(MAKE) --keep-going -j2 gates
	@$(MAKE) molecule

gates: $(GATES)

lint: env ## ruff, mypy, yamllint, ansible-lint, licences
	@$(MAKE) --keep-going -j2 gate-ansible-lint gate-mypy gate-ruff gate-yamllint gate-reuse

unit: env ## unit tests; one of them: make unit ARGS='-k plan'
	@pytest $(ARGS)

sanity: env ## ansible-test sanity; a part of it: make sanity ARGS='--test validate-modules'
	@.ci/sanity $(ARGS)

docs: env ## write docs/variables.md from the argument specs, then lint documentation and changelog
	@python tests/docs/variables.py --write
	@$(MAKE) --keep-going gate-docs gate-changelog

build-check: env ## build the collection, install it into an empty path, run it from there
	@$(MAKE) gate-build

gate-ruff:
	@$(GATE) ruff bash -c 'ruff check . && ruff format --check .'

gate-mypy:
	@$(GATE) mypy .ci/mypy

gate-yamllint:
	@$(GATE) yamllint yamllint --strict .

gate-ansible-lint:
	@$(GATE) ansible-lint ansible-lint --profile production --strict --offline

gate-sanity:
	@$(GATE) sanity .ci/sanity

gate-unit: # thousands of tests in one process, beside other gates
	@GB10_GATE_TIMEOUT=$${GB10_GATE_TIMEOUT:-900} $(GATE) unit pytest

gate-build:
	@$(GATE) build .ci/build-check

gate-docs:
	@$(GATE) docs antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs self .

gate-variables:
	@$(GATE) variables python tests/docs/variables.py --check

gate-changelog:
	@$(GATE) changelog bash -c 'antsibull-changelog lint && antsibull-changelog lint-changelog-yaml --strict changelogs/changelog.yaml'

gate-reuse:
	@$(GATE) reuse reuse lint --lines

molecule: env ## wrong input, deploy, break and repair, and faults of the rails, on rehearsal nodes
	@molecule test --all --exclude distribute --exclude launch --report

molecule-distribute: env ## faults of copies on three rehearsal nodes: minutes of slow links, so apart from the rest
	@NODES=3 molecule test -s distribute --report

molecule-launch: env ## starts that fail in every way, with both engines: a quarter of an hour, so apart from the rest
	@ENGINES='vllm sglang' molecule test -s launch --report

format: env ## let ruff write the layout of the Python files and mend what it can
	@ruff format . && ruff check --fix .

rehearse: rehearse-up ## the whole product on this machine: nodes, engine, model, deploy, a completion; NODES=4 for more
	@ansible-playbook playbooks/deploy_qwen35.yml -i inventories/rehearsal
	@echo "rehearse: nodes and deployment stay up. Look: 'ssh -F .rehearsal/ssh_config rehearsal-a', 'make rehearse' again,"
	@echo "rehearse: '.venv/bin/ansible-playbook playbooks/status.yml -i inventories/rehearsal'. End all of it: 'make rehearse-down'."

rehearse-up: env ## only the nodes, with engine image and model on the first; ENGINES='vllm sglang' for both images
	@python tests/nodes/rehearse.py up $(if $(NODES),--nodes $(NODES))
	@python tests/engines/tiny_model.py .cache/models/qwen35-tiny
	@for engine in $(or $(ENGINES),vllm); do \
	    archive=$$(python tests/engines/build.py --no-load "$$engine" | tee /dev/stderr | tail -n 1); \
	    python tests/nodes/rehearse.py load-image 0 "$$archive" || exit; done
	@python tests/nodes/rehearse.py put-model 0 .cache/models/qwen35-tiny

rehearse-down: ## end the rehearsal and take all of it away again
	@if [ -x .venv/bin/python ]; then python=.venv/bin/python; else python=python3; fi; \
	    [ ! -e tests/nodes/rehearse.py ] || $$python tests/nodes/rehearse.py down

clean: rehearse-down ## end the rehearsal, then remove everything that was made here (.venv, .cache, .rehearsal)
	@rm -rf .venv .cache .rehearsal .ansible .pytest_cache .mypy_cache .ruff_cache tests/output gb10-serving-*.tar.gz
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "clean: done"
