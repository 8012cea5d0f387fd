"""What the requests of the fuzzer speak of: topics that are there, names that are not, values that make sense."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

CANARY: Final = "canary"
BASE_TOPICS: Final = ("fuzz-0", "fuzz-1", "fuzz-2")
"""Are there, whatever the fuzzer deletes: they are made again."""
MADE_TOPICS: Final = ("made-0", "made-1", "made-2")
"""What it may make; it may be gone at any time."""
INTERNAL: Final = "__consumer_offsets"
CLUSTER: Final = "ottla"
PROTOCOL_TYPE: Final = "consumer"
PROTOCOL: Final = "range"
ZERO_ID: Final = bytes(16)

_LONGEST: Final = 32_767
_NAMES: Final = (*BASE_TOPICS, *BASE_TOPICS, *MADE_TOPICS, "nowhere", INTERNAL, "__transaction_state")
_CONFIGS: Final = (
    "retention.ms",
    "cleanup.policy",
    "max.message.bytes",
    "segment.bytes",
    "num.io.threads",
    "process.roles",
    "listener.name.x.ssl.keystore.password",
    "consumer.session.timeout.ms",
    "interval.ms",
    "match",
    "ottla_broker.replication.replica_fetcher",
    "no.such.config",
    "",
)
_CONFIG_VALUES: Final = ("604800000", "delete", "compact", "1048588", "50000", "client_id=a", "WARN", "-1", "x", "")
_STRANGE: Final = (
    "",
    ".",
    "..",
    "../../etc/passwd",
    "a" * 249,
    "a" * 250,
    "\0",
    "ü\u2028🐙",
    "%s{}${jndi:ldap://x}",
    "n" * 4_000,
    "n" * _LONGEST,
    "ü" * (_LONGEST // 2),
)
_NUMBERS: Final[dict[str, tuple[int, ...]]] = {
    # A fetch that waits long is as it must be, and a hang would look like it.
    "max_wait_ms": (0, 0, 0, 1, 5, -1, -(2**31)),
    "min_bytes": (0, 0, 1, 1, 1_000_000, -1, 2**31 - 1),
    "session_epoch": (-1, -1, -1, 0, 1, 2, 2**31 - 1, -(2**31)),
    "session_id": (0, 0, 0, 1, -1, 2**31 - 1),
    "replica_id": (-1,),
    # Which broker a client expects here; it is broker 0 of CLUSTER.
    "node_id": (0, 0, -1, -1, 1),
    # What the cluster keeps is to stay small.
    "num_partitions": (1, 1, 2, -1, 0, -2, 2**31 - 1),
    "count": (1, 2, 3, 0, -1, 2**31 - 1),
    "replication_factor": (1, 1, -1, 0, 2, 32_767, -(2**15)),
    "broker_ids": (0, 0, 0, 1, -1, 2**31 - 1),
    "acks": (-1, -1, 1, 1, 0, 2, -2),
    "resource_type": (2, 2, 2, 4, 4, 0, 1, 8, 16, 32, -1, 127),
    "resource_types": (2, 4, 8, 16, 32, 0, -1, 127),
    "timestamp": (-1, -2, -3, -4, -5, -6, -7, 0, 1_700_000_000_000, 2**63 - 1, -(2**63)),
    "offset": (-1, 0, 0, 1, 2**63 - 1, -2),
    # Members that never come back are to be gone soon.
    "session_timeout_ms": (6_000, 6_000, 6_000, 30_000, 0, -1, 2**31 - 1),
    "rebalance_timeout_ms": (100, 1_000, 0, -1),
    "timeout_ms": (1_000, 5_000, 0, -1, 2**31 - 1),
}
_TAME_NUMBERS: Final[dict[str, tuple[int, ...]]] = {
    "num_partitions": (-1,),
    "acks": (-1, 1),
    "session_epoch": (-1,),
}


class Member(NamedTuple):
    """A member of an existing group."""

    group: str
    member_id: str
    generation: int


class World:
    """`topic_ids` are renewed as topics are made again; `records` gives a produce its batches."""

    def __init__(self, records: Callable[[random.Random], bytes], *, validate_share: float = 0.97) -> None:
        self.records: Final = records
        self.validate_share: Final = validate_share
        self.strange_texts: Final = _STRANGE
        self.topic_ids: list[bytes] = [ZERO_ID, b"\xff" * 16]
        self._members: list[Member] = [Member("group", "", -1)]
        self._speaks_of = 0

    def learn_ids(self, ids: Sequence[bytes]) -> None:
        self.topic_ids[:] = [ZERO_ID, b"\xff" * 16, *ids, *ids]

    def learn_members(self, members: Sequence[Member]) -> None:
        """Those that their coordinators know: the rest of the group APIs is behind that."""
        self._members = list(members)

    def speak_of_another(self) -> None:
        """Requests that come one after the other speak of the same member, until this is called."""
        self._speaks_of += 1

    @property
    def _member(self) -> Member:
        return self._members[self._speaks_of % len(self._members)]

    def texts(self, name: str, entity: str) -> Sequence[str]:
        """What a text field of that name may hold; `entity` is what the definition says that it names."""
        if name == "topic_name":  # of a quorum
            return (*_NAMES, "__cluster_metadata", "__cluster_metadata")
        if entity == "topicName" or name in ("resource_name", "topic", "topic_name"):
            return _NAMES if name != "resource_name" else (*_NAMES, "0", "0", "0", "1", "", "-1")
        if name == "name":  # of a config, or of a group's protocol: topics say that they are topics
            return (*_CONFIGS, PROTOCOL, PROTOCOL)
        if name == "path":
            return ("/", "/elsewhere", "relative", "")
        if name == "value":
            return _CONFIG_VALUES
        if name == "cluster_id":
            return (CLUSTER, CLUSTER, CLUSTER, "another", "")
        if name == "configuration_keys":
            return _CONFIGS
        if name.startswith("client_software"):
            return ("fuzz", "1.0", "a-b.c", "-", "")
        return self._of_groups(name) or ("", "key", "group", "0")

    def _of_groups(self, name: str) -> Sequence[str]:
        group, member, _ = self._member
        return {
            "group_id": (group, group, group, group, "group", ""),
            "groups": (group, "group", "nobody"),
            "groups_names": (group, "group", "nobody"),
            "member_id": (member, member, member, "", "nobody"),
            "group_instance_id": ("instance", "instance", ""),
            "protocol_type": (PROTOCOL_TYPE, PROTOCOL_TYPE, "connect", ""),
            "protocol_name": (PROTOCOL, "", "nothing"),
        }.get(name, ())

    def numbers(self, name: str, *, is_tame: bool) -> Sequence[int] | None:
        if name in ("generation_id", "generation_id_or_member_epoch"):
            generation = self._member.generation
            return (generation, generation, generation, -1, 0, 2**31 - 1)
        return (_TAME_NUMBERS.get(name) if is_tame else None) or _NUMBERS.get(name)
