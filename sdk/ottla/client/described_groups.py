"""The exchange that asks a coordinator what it knows of a classic group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from ottla.client.kafka.apis import DESCRIBE_GROUPS
from ottla.client.kafka.exchange import Exchange, raise_failed
from ottla.errors import ErrorCode, error_from_code
from ottla_core.kafka.messages import DescribeGroupsRequest, DescribeGroupsResponse

T = TypeVar("T")

DescribedGroup: TypeAlias = DescribeGroupsResponse.DescribedGroup

_DEAD: Final = "Dead"


def description(group: str, read: Callable[[DescribedGroup], T]) -> Exchange[T]:
    """Return the exchange that asks for a group. `read` returns what its description means.

    Brokers of ottla add the generation, the leader, the shard and the coordinator of a group, and the timeouts of its
    members, in private fields. Before version 6 a group that does not exist has the state "Dead", and no error.
    """

    def read_first(response: DescribeGroupsResponse) -> T:
        described = response.groups[0]
        raise_failed(described)
        if described.group_state == _DEAD:
            raise error_from_code(ErrorCode.GROUP_ID_NOT_FOUND, f"the group {group} does not exist")
        return read(described)

    return Exchange(DESCRIBE_GROUPS, lambda _: DescribeGroupsRequest(groups=[group]), read_first)
