"""What kafka-consumer-groups prints of groups of each kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Final

from peers.client import GroupProtocol
from peers.kafka.tools import run_tool
from tests.compat.group_judges.place import PARTITIONS, RECORDS, Place
from tests.compat.kafka_groups import Confluent
from waiting import wait_until

_ON_ITS_WAY: Final = frozenset({"Assigning", "Reconciling", "PreparingRebalance", "CompletingRebalance"})
_TRIES: Final = 10


class Groups:
    """Groups to look at: `consumer`, `classic`, `mixed` and `empty`. Their members stay until `close`."""

    def __init__(self, place: Place) -> None:
        self.bootstrap: Final = place.bootstrap
        self.topic: Final = place.topic()
        self._members = ExitStack()
        consumer = self._join("consumer", "consumer")
        classic = self._join("classic", "classic")
        mixed = [self._join("mixed", "classic"), self._join("mixed", "consumer")]
        wait_until(lambda: [len(m.assignment()) for m in mixed] == [PARTITIONS // 2] * 2)
        gone = Confluent(place.bootstrap, self.topic, self.name("empty"), protocol="consumer")
        for member in (consumer, classic, gone):
            wait_until(lambda member=member: len(member.records()) == RECORDS)
            member.commit()
        gone.close()

    def name(self, kind: str) -> str:
        return f"{kind}-of-{self.topic}"

    def close(self) -> None:
        self._members.close()

    def _join(self, kind: str, protocol: GroupProtocol) -> Confluent:
        member = Confluent(self.bootstrap, self.topic, self.name(kind), protocol=protocol)
        self._members.callback(member.close)
        wait_until(member.assignment)
        return member

    def table(self, *arguments: str) -> list[list[str]]:
        """What the tool prints once no group is on its way, in words, without what differs from run to run."""
        named = [re.sub(r"\{(\w+)\}", lambda found: self.name(found[1]), argument) for argument in arguments]
        for _ in range(_TRIES):
            told = normalized(
                run_tool("kafka-consumer-groups", *named, "--bootstrap-server", self.bootstrap), self.topic
            )
            if not any(word in _ON_ITS_WAY for row in told for word in row):
                break
        return own_groups(told) if "--list" in arguments else told


def normalized(told: str, topic: str) -> list[list[str]]:
    """Lines as words, sorted, for groups and members come in any order."""
    for pattern, word in (
        (re.escape(topic), "TOPIC"),
        (r"rdkafka-[0-9a-f-]{36}", "MEMBER"),
        (r"(?<!\S)[A-Za-z0-9_+/-]{22}(?:==)?(?!\S)", "MEMBER"),
        (r"/[0-9.]+", "HOST"),
        (r"\b(?:127\.0\.0\.1|localhost):\d+\s+\(\d+\)", "COORDINATOR"),
    ):
        told = re.sub(pattern, word, told)
    return sorted(line.split() for line in told.splitlines() if line.strip())


def own_groups(rows: list[list[str]]) -> list[list[str]]:
    """The header and the groups of these tables. The cluster also has groups of other judges."""
    return [row for row in rows if row[0] == "GROUP" or row[0].endswith("-of-TOPIC")]


TABLES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "describe": ("--describe", "--group", "{consumer}"),
        "describe of an empty group": ("--describe", "--group", "{empty}"),
        "describe with epochs": ("--describe", "--group", "{consumer}", "--offsets", "--verbose"),
        "members": ("--describe", "--group", "{consumer}", "--members", "--verbose"),
        "members of a mixed group": ("--describe", "--group", "{mixed}", "--members"),
        "state": ("--describe", "--group", "{consumer}", "--state", "--verbose"),
        "state of a mixed group": ("--describe", "--group", "{mixed}", "--state"),
        "list with states": ("--list", "--state"),
        "list with types": ("--list", "--type"),
        "list of consumer groups": ("--list", "--type", "consumer"),
        "list of classic groups": ("--list", "--type", "classic"),
        "reset beside members": (
            "--reset-offsets",
            "--to-earliest",
            "--all-topics",
            "--dry-run",
            "--group",
            "{consumer}",
        ),
        "delete beside members": ("--delete", "--group", "{consumer}"),
        "delete of an empty group": ("--delete", "--group", "{empty}"),
    }
)
"""Commands of kafka-consumer-groups, in their order: the last ones change something. A kind in braces is its group."""
