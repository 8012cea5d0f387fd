"""What an ACL protects: the types of resources, how a pattern names them, and which operations each type knows."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from ottla_proto.operation import Operation

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""
ANY_NAME: Final = "*"
"""The name of a LITERAL pattern that matches every resource of its type."""


class ResourceType(IntEnum):
    """Kafka's types of resources with their codes on the wire. ANY is only for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @classmethod
    def _missing_(cls, value: object) -> ResourceType | None:
        return cls.UNKNOWN if isinstance(value, int) else None


class PatternType(IntEnum):
    """Kafka's types of patterns (KIP-290) with their codes on the wire. ANY and MATCH are only for filters.

    A filter of type MATCH finds every pattern that matches the filter's name, and one of type ANY finds the patterns of
    exactly that name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4

    @classmethod
    def _missing_(cls, value: object) -> PatternType | None:
        return cls.UNKNOWN if isinstance(value, int) else None


SUPPORTED_OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = MappingProxyType(
    {
        ResourceType.TOPIC: (
            Operation.READ,
            Operation.WRITE,
            Operation.CREATE,
            Operation.DELETE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.GROUP: (
            Operation.READ,
            Operation.DELETE,
            Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
        ),
        ResourceType.CLUSTER: (
            Operation.CREATE,
            Operation.ALTER,
            Operation.DESCRIBE,
            Operation.CLUSTER_ACTION,
            Operation.DESCRIBE_CONFIGS,
            Operation.ALTER_CONFIGS,
            Operation.IDEMPOTENT_WRITE,
        ),
        ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE, Operation.TWO_PHASE_COMMIT),
        ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
        ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
    }
)
"""The operations that a request may need on a resource of each type. An ACL may name others, and then has no effect."""
