"""Group.DeleteGroups is Kafka's DeleteGroups."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import DELETE_GROUPS, AnyApi
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import DeleteGroupsRequest, DeleteGroupsResponse
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error


class DeleteGroupsTranslation:
    """Translates the deletion of groups, with an outcome for each."""

    api: Final[AnyApi] = DELETE_GROUPS

    def request(self, request: pb.DeleteGroupsRequest, terms: Terms) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=list(request.groups))

    def response(self, response: DeleteGroupsResponse, terms: Terms) -> pb.DeleteGroupsResponse:
        deleted = pb.DeleteGroupsResponse()
        for result in response.results:
            error = Error(code=result.error_code, message=result.error_message or "")
            deleted.groups.add(group=result.group_id, error=error)
        return deleted
