"""The fetch session of one scripted stream: what is requested until it is answered (broker.proto, FetchSession)."""

from __future__ import annotations

from ottla_core.errors import ErrorCode
from ottla_proto import broker_pb2 as pb


class ScriptedSession:
    def __init__(self) -> None:
        self._id = 0
        self._requested: dict[tuple[bytes, int], pb.FetchPartition] = {}

    def whole(self, request: pb.FetchRequest) -> pb.FetchRequest:
        """The request as if it stood alone: with all that has been named before it and is not answered."""
        if not request.HasField("session"):
            return request
        requested = {} if request.session.begins else dict(self._requested)
        for forgotten in request.forgotten:
            requested.pop((forgotten.topic_id, forgotten.partition), None)
        for named in request.partitions:
            requested[named.topic_id, named.partition] = named
        return pb.FetchRequest(
            session=request.session,
            partitions=requested.values(),
            rack=request.rack,
            from_follower=request.from_follower,
            read_committed=request.read_committed,
        )

    def answered(self, whole: pb.FetchRequest, response: pb.FetchResponse) -> pb.FetchResponse:
        """The response to it, in the session that it begins or continues."""
        if not whole.HasField("session"):
            return response
        if not whole.session.begins and whole.session.id != self._id:
            error = pb.FetchResponse()
            error.error.code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            return error
        self._id = whole.session.id
        self._requested = {(part.topic_id, part.partition): part for part in whole.partitions}
        for part in filter(ends_request, response.partitions):
            del self._requested[part.topic_id, part.partition]
        return pb.FetchResponse(session=pb.FetchSession(id=self._id), partitions=response.partitions)


def ends_request(part: pb.PartitionFetched) -> bool:
    return bool(part.records or part.error.code) or part.HasField("preferred_read_replica")
