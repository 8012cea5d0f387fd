"""The row of migrations, its members and its mutants, and what it must have come to, to count."""

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
"""At least eight in every round: the member by hand comes and goes."""


@dataclass(frozen=True, slots=True)
class MigrationRow:
    """`minutes` is how long it takes at least; it goes on until there were as many hits as `least` says."""

    name: str
    title: str
    minutes: float
    roles: tuple[Role, ...] = _ROLES
    run: Callable[[MigrationNemesis, float], None] = rounds
    least: Mapping[str, int] = field(default_factory=dict)
    """By what is counted: kills, migrations, rebalances, commits, old_commits, reads."""
    partitions: int = 12
    findings: tuple[str, ...] = ()
    """What a mutant has to be found by."""


ROW: Final = MigrationRow(
    "F32",
    "groups change their protocol beside kills and pauses",
    30.0,
    least=MappingProxyType(
        {"kills": 200, "migrations": 20, "rebalances": 1000, "commits": 5000, "old_commits": 100, "reads": 20_000}
    ),
)

# Without a JVM: a mutant is to be found soon.
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
        ("revoked-without-a-word-of-the-member", _DOUBLE),
        ("no-session-of-consumers-after-a-load", _STUCK),
        ("session-without-end", _STUCK),
        ("epoch-not-begun", _STUCK),
        ("target-without-a-partition", _STUCK),
        ("assignments-lost-in-the-upgrade", _DOUBLE),
        ("assignments-not-replayed", _DOUBLE),
    )
)
"""Their titles are the row that they belong to."""
