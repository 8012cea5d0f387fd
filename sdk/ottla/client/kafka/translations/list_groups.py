"""Group.ListGroups is Kafka's ListGroups, which lists the groups that one broker coordinates.

Brokers of ottla add the number of members, the shard and the coordinator of a group, and the shards that the listing
covers, in private fields.
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import LIST_GROUPS, AnyApi
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import ListGroupsRequest, ListGroupsResponse
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error, ShardNumbers


class ListGroupsTranslation:
    """Translates a request for the groups in some states."""

    api: Final[AnyApi] = LIST_GROUPS

    def request(self, request: pb.ListGroupsRequest, terms: Terms) -> ListGroupsRequest:
        return ListGroupsRequest(states_filter=list(request.states), types_filter=list(request.types))

    def response(self, response: ListGroupsResponse, terms: Terms) -> pb.ListGroupsResponse:
        groups = [
            pb.ListedGroup(
                group=group.group_id,
                protocol_type=group.protocol_type,
                state=group.group_state,
                type=group.group_type,
                members=max(0, group.members),
                shard=group.shard,
                coordinator=group.coordinator,
            )
            for group in response.groups
        ]
        shards = ShardNumbers(numbers=response.shards, total=response.shard_count)
        return pb.ListGroupsResponse(error=Error(code=response.error_code), groups=groups, shards=shards)
