# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright (c) 2026 gb10.serving contributors
"""Rehearsal nodes: containers on this machine that stand in for GB10 machines."""
