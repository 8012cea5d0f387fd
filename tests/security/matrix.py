"""Tries each request of Kafka clients by users with different ACLs, at ottla and at Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from authorization_cells import CASES, Case, Setting, settings_of
from guarded import DENIED
from tests.security.door import Door

from ottla_proto.operation import Operation

_SOON_S: Final = 3.0
"""A broker hears of an ACL some time after it was created."""


@dataclass
class Matrix:
    """This is the outcome. `wrong` are cells in which ottla did not answer as expected, `differs` those in which Kafka
    did not."""

    methods: set[str] = field(default_factory=set)
    cells: int = 0
    wrong: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)


def is_askable(case: Case) -> bool:
    """Return whether librdkafka, which creates the ACLs, knows the operations that the request needs."""
    return all(need.operation is not Operation.TWO_PHASE_COMMIT for need in case.needs)


def try_all(ours: Door, kafka: Door, cases: Iterable[Case] = CASES) -> Matrix:
    """Try each case in each of its settings at both doors."""
    matrix = Matrix()
    for number, case in enumerate(cases):
        if not is_askable(case):
            continue
        matrix.methods.add(case.api)
        _try_without_a_login(matrix, number, case, ours, kafka)
        for setting in settings_of(case):
            matrix.cells += 1
            name = f"{number}-{case.api}, {setting.name}"
            mine, kafkas = (settled_codes(door, case, setting) for door in (ours, kafka))
            if not matches(mine, setting):
                matrix.wrong.append(f"{name}: {_said(mine)} instead of {_said(setting.codes)}")
            if not matches(kafkas, setting):
                matrix.differs.append(f"{name}: Kafka answers {_said(kafkas)}, ottla {_said(mine)}")
    return matrix


def matches(codes: frozenset[int] | None, setting: Setting) -> bool:
    """Return whether these codes are what the setting leads to."""
    if codes is None:
        return False
    return not codes & DENIED if setting.codes is None else codes == setting.codes


def _try_without_a_login(matrix: Matrix, number: int, case: Case, ours: Door, kafka: Door) -> None:
    matrix.cells += 1
    for door in (ours, kafka):
        door.prepare(case)
    mine, kafkas = ours.codes_without_a_login(case), kafka.codes_without_a_login(case)
    may_come_before = case.api in ("ApiVersions", "SaslHandshake")
    if (mine is not None) != may_come_before:
        matrix.wrong.append(f"{number}-{case.api}, no login: {_said(mine)}")
    if mine != kafkas:
        matrix.differs.append(f"{number}-{case.api}, no login: Kafka answers {_said(kafkas)}, ottla {_said(mine)}")


def settled_codes(door: Door, case: Case, setting: Setting) -> frozenset[int]:
    """Return the codes that the request gets in this setting. Wait for the expected ones, but not for long."""
    door.prepare(case)
    door.grant(*setting.grants)
    give_up_at = time.monotonic() + _SOON_S
    while not matches(codes := door.codes(case), setting) and time.monotonic() < give_up_at:
        time.sleep(0.1)
    return codes


def _said(codes: frozenset[int] | None) -> str:
    return "a closed connection" if codes is None else str(sorted(codes))
