"""Every method of a contract is called by some service, and `docs/design/boundaries.md` says by which."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from google.protobuf.descriptor import ServiceDescriptor

from ottla_proto import contracts
from ottla_proto.contracts import GatheredCalls, Method

ROOT: Final = Path(__file__).parents[2]
CALLERS: Final = {
    "broker": "services/broker",
    "controller": "services/controller",
    "coordinators": "core/ottla_core/coordination",
    "group-coordinator": "services/group-coordinator",
    "mirror": "services/mirror",
    "services": "core/ottla_core/cluster",
    "txn-coordinator": "services/txn-coordinator",
}
"""Where each caller's code is. "coordinators" is what both coordinators share, and "services" what all services do."""
ROW: Final = re.compile(r"^\| ([A-Z]\w+\.\w+) \| ([a-z, -]+) \|$", re.MULTILINE)
NAME: Final = re.compile(r"\b(?:contracts\.)?([A-Z]\w+)\.([A-Z][A-Z_]+)\b")


def callers() -> dict[str, set[str]]:
    """Return who calls each method, by its name in the contracts."""
    tables = {name: table for name, table in vars(contracts).items() if hasattr(table, "SERVICE")}
    found: dict[str, set[str]] = {
        f"{each.service}.{each.name}": set()
        for table in tables.values()
        for each in vars(table).values()
        if isinstance(each, Method | GatheredCalls)
    }
    for caller, folder in CALLERS.items():
        for path in (ROOT / folder).rglob("*.py"):
            for table, constant in NAME.findall(path.read_text()):
                method = getattr(tables.get(table), constant, None)
                if method is not None and not isinstance(method, ServiceDescriptor):
                    found[f"{method.service}.{method.name}"].add(caller)
    return found


def test_every_method_has_a_caller() -> None:
    assert [method for method, by in callers().items() if not by] == []


def test_the_page_names_the_callers() -> None:
    page = (ROOT / "docs/design/boundaries.md").read_text()
    named = {method: set(by.split(", ")) for method, by in ROW.findall(page)}
    assert named == {method: by for method, by in callers().items() if by}
