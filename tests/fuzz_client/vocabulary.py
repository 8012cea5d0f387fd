"""The values in responses: those of an honest broker, and those that no broker has."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from tests.fuzz import batches
from tests.fuzz.messages import Composer

TOPIC: Final = "t"
TOPIC_ID: Final = bytes(range(16))
NODE: Final = 0
HOST: Final = "127.0.0.1"
RECORDS: Final = 5
USER: Final = "user"
PASSWORD: Final = "hunter2-of-nobody"

_INT32_MAX: Final = 2**31 - 1
_CODES: Final = (0, 0, 0, 1, 3, 5, 6, 7, 10, 13, 16, 35, 42, 45, 47, 56, 59, 70, 71, 74, 75, 76, 100, 103, 129)
_ODD: Final[dict[str, tuple[int, ...]]] = {
    "error_code": (*_CODES, -1, -2, 999, 1000, 1001, 32_767, -32_768),
    "throttle_time_ms": (0, 0, -1, _INT32_MAX, -(2**31)),
    **dict.fromkeys(
        ("node_id", "leader_id", "controller_id", "replica_nodes", "isr_nodes", "offline_replicas", "broker_id"),
        (0, 0, -1, 7, _INT32_MAX, -(2**31)),
    ),
    **dict.fromkeys(("partition", "partition_index", "index"), (0, 0, 0, 1, -1, _INT32_MAX, -(2**31))),
    "preferred_read_replica": (-1, -1, 0, 7, -2, _INT32_MAX),
    "session_id": (0, 0, 1, -1, _INT32_MAX),
}
_ODD_HOSTS: Final = (HOST, HOST, "", "\0", "a b", "x" * 300, "y" * 30_000, "a..b", "::1", "[::1]", "0.0.0.0", ":", "ü")
"""None of them is looked up elsewhere, so nobody waits for a name server."""
_BODY: Final = "\x12\x02\n\0"
"""The response to any private call: no error, and one part that has one part."""
_ODD_BODIES: Final = (_BODY, "", "x", "\n\0", "\n\x02\x08\x03", "\n\x02\x08\x7f", "\x12\0" * 500, "\x12\x7f")
_ODD_NAMES: Final = (TOPIC, TOPIC, "", "u", "n" * 250, "ü\u2028🐙", "\0", "n" * 30_000)


class HonestVocabulary:
    """The values of a cluster of one broker with one topic of one partition."""

    validate_share: float = 1.0

    def __init__(self, port: int) -> None:
        self.topic_ids: list[bytes] = [TOPIC_ID]
        self.strange_texts: Sequence[str] = ("",)
        self._port: Final = port

    def records(self, random_: random.Random, /) -> bytes:
        return batches.batch(count=RECORDS)

    def texts(self, name: str, entity: str) -> Sequence[str]:
        if entity == "topicName" or name in ("topic", "topic_name"):
            return (TOPIC,)
        return {"host": (HOST,), "body": (_BODY,)}.get(name, ("",))

    def numbers(self, name: str, *, is_tame: bool) -> Sequence[int] | None:
        if name in ("preferred_read_replica", "log_append_time_ms"):
            return (-1,)
        return (self._port,) if name == "port" else (0,)


class OddVocabulary(HonestVocabulary):
    """Values that fit their fields, and make no sense together."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.topic_ids = [TOPIC_ID, TOPIC_ID, bytes(16), b"\xff" * 16]
        self.strange_texts = _ODD_NAMES
        self._ports: Final = (port, port, 0, -1, 1, 70_000, _INT32_MAX, -(2**31))

    def records(self, random_: random.Random, /) -> bytes:
        return batches.records(random_)

    def texts(self, name: str, entity: str) -> Sequence[str]:
        if name in ("host", "body"):
            return _ODD_HOSTS if name == "host" else _ODD_BODIES
        return (
            _ODD_NAMES if entity == "topicName" or name in ("topic", "topic_name", "name") else ("", "x", "n" * 5_000)
        )

    def numbers(self, name: str, *, is_tame: bool) -> Sequence[int] | None:
        return self._ports if name == "port" else _ODD.get(name)


class HonestComposer(Composer):
    """Writes responses in which everything is there once, as if the requests named one topic, one group and so on."""

    def __init__(self, port: int, random_: random.Random) -> None:
        super().__init__(HonestVocabulary(port), random_)

    def counts(self, name: str) -> Sequence[int]:
        return (0,) if name == "unknown_state_filters" else (1,)
