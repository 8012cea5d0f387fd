"""Kafka's ACL operations."""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """Kafka's ACL operations (KIP-11) with their codes on the wire. The resource is named at the call.

    ALL stands for every operation in an ACL, and ANY for every operation in a filter. A code that this release does not
    know is UNKNOWN, as in Kafka.
    """

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15

    @classmethod
    def _missing_(cls, value: object) -> Operation | None:
        return cls.UNKNOWN if isinstance(value, int) else None
