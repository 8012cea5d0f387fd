"""This module reads and writes the command line that runs a seed. A red seed prints it, and a scenario keeps it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

from tests.world.seed import PROFILES, Plan

PROGRAM = "python -m tests.world"


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in _names(text)]


def parser_of_plans() -> argparse.ArgumentParser:
    """Return a parser of the options that say what runs. It is the parent of parsers that have more options."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--storm", type=float, default=40.0)
    parser.add_argument("--profile", default="", choices=("", *PROFILES))
    parser.add_argument("--faults", type=_numbers)
    parser.add_argument("--without", type=_names, default=[])
    return parser


def plan_of(given: argparse.Namespace, *, log: bool = False) -> Plan:
    """Return the plan for the first seed."""
    return Plan(given.first, given.storm, given.without, log, given.profile, given.faults)


def command_of(plan: Plan) -> str:
    """Return the command line that runs this plan."""
    options = ["--first", plan.seed, "--seeds", 1, "--storm", f"{plan.storm_s:g}"]
    options += ["--profile", plan.profile] if plan.profile else []
    options += ["--faults", ",".join(map(str, plan.faults))] if plan.faults is not None else []
    options += ["--without", ",".join(plan.without)] if plan.without else []
    return f"{PROGRAM} {shlex.join(map(str, options))}"


def plan_in(command: str) -> Plan:
    """Return the plan that a command line runs."""
    arguments: Sequence[str] = shlex.split(command.removeprefix(PROGRAM))
    return plan_of(parser_of_plans().parse_args(arguments))
