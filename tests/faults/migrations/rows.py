"""The row of migrations: its members, its mutants, and the floors that a valid run reaches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from tests.faults.migrations.fleet import BY_HAND, Role
from tests.faults.migrations.nemesis import MigrationNemesis, rounds

CHANGING: Final = "changing"
MIXED: Final = "mixed"
GROUPS: Final = (CHANGING, MIXED)
JAVA, FRANZ_GO, LIBRDKAFKA, KAFKA_PYTHON = "java", "franz-go", "librdkafka", "kafka-python"

_ROLES: Final = (
    Role(CHANGING, JAVA, migrates=True),
    Role(CHANGING, FRANZ_GO, migrates=True),
    Role(CHANGING, LIBRDKAFKA, migrates=True),
    Role(CHANGING, LIBRDKAFKA, migrates=True, number=1),
    Role(MIXED, JAVA, migrates=False, protocol="consumer"),
    Role(MIXED, FRANZ_GO, migrates=False, protocol="consumer"),
    Role(MIXED, LIBRDKAFKA, migrates=False),
    Role(MIXED, KAFKA_PYTHON, migrates=False),
    Role(MIXED, BY_HAND, migrates=False, protocol="consumer"),
)
"""Each has a member in every round, except for the one by hand, whose member joins and leaves."""


@dataclass(frozen=True, slots=True)
class MigrationRow:
    """A run takes `minutes` at least, and goes on until there were as many hits as `least` says."""

    name: str
    title: str
    minutes: float
    roles: tuple[Role, ...] = _ROLES
    run: Callable[[MigrationNemesis, float], None] = rounds
    least: Mapping[str, int] = field(default_factory=dict)
    """The floors, by what is counted: kills, migrations, rebalances, commits, old_commits, reads."""
    partitions: int = 12
    findings: tuple[str, ...] = ()
    """The kinds of findings of which a mutant has to cause one."""


ROW: Final = MigrationRow(
    "F32",
    "groups change their protocol beside kills and pauses",
    30.0,
    least=MappingProxyType(
        {"kills": 200, "migrations": 20, "rebalances": 1000, "commits": 5000, "old_commits": 100, "reads": 20_000}
    ),
)

# No member needs a JVM, so that a mutant is found soon.
_FEW: Final = (
    Role(CHANGING, FRANZ_GO, migrates=True),
    Role(CHANGING, LIBRDKAFKA, migrates=True),
    Role(MIXED, FRANZ_GO, migrates=False, protocol="consumer"),
    Role(MIXED, LIBRDKAFKA, migrates=False, protocol="consumer"),
    Role(MIXED, KAFKA_PYTHON, migrates=False),
    Role(MIXED, BY_HAND, migrates=False, protocol="consumer"),
)
_DOUBLE: Final = ("double_owners", "old_epoch_commits")
_STUCK: Final = ("unsettled",)

MUTANT_ROWS: Final = tuple(
    MigrationRow(name, "F32", 2.5, _FEW, partitions=6, findings=findings)
    for name, findings in (
        ("commit-in-any-epoch", ("old_epoch_commits",)),
        ("partition-free-before-its-owner-gives-it-up", _DOUBLE),
        ("revoked-before-the-member-reports-it", _DOUBLE),
        ("no-session-of-consumers-after-a-load", _STUCK),
        ("session-without-end", _STUCK),
        ("epoch-not-begun", _STUCK),
        ("target-without-a-partition", _STUCK),
        ("assignments-lost-in-the-upgrade", _DOUBLE),
        ("assignments-not-replayed", _DOUBLE),
    )
)
"""Their titles name the row to which they belong."""
