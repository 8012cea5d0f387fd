"""The APIs of Kafka that the clients call, each with its messages and with the versions that the clients know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, Self, TypeAlias, TypeVar

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka import messages as m
from ottla_core.kafka.message import Message
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_core.kafka.schema import schema_of
from ottla_core.model import MAX_BATCH_BYTES

_KIB: Final = 1024
_MIB: Final = 1024 * _KIB
_NEVER: Final = 2**15


Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

_NOT_CARRIED_OUT: Final = frozenset(
    {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
)


def own_error(part: Message) -> OttlaError | None:
    """Return the error that a response, or a part of it, has in its own field."""
    if code := getattr(part, "error_code", ErrorCode.NONE):
        return OttlaError(code, getattr(part, "error_message", "") or "")
    return None


def coordinator_error(code: int) -> int:
    """Return the code of a coordinator's error about a transaction.

    Coordinators before Kafka 2.7 send INVALID_PRODUCER_EPOCH where later ones send PRODUCER_FENCED (KIP-588). From the
    leader of a partition INVALID_PRODUCER_EPOCH has another meaning.
    """
    return ErrorCode.PRODUCER_FENCED if code == ErrorCode.INVALID_PRODUCER_EPOCH else code


def _of_transaction(response: Message) -> OttlaError | None:
    """Return the error that a coordinator's response about a transaction has."""
    if (error := own_error(response)) is None:
        return None
    return OttlaError(coordinator_error(error.code), error.message)


def _in_each(field: str) -> Callable[[Message], OttlaError | None]:
    """Return a function that finds the error of a request that no controller has carried out.

    Some APIs have no field for such an error. Their responses repeat it in each element of `field`.
    """

    def failure(response: Message) -> OttlaError | None:
        parts = getattr(response, field)
        codes = {part.error_code for part in parts}
        return own_error(parts[0]) if len(codes) == 1 and codes <= _NOT_CARRIED_OUT else None

    return failure


class Api(NamedTuple, Generic[Request, Response]):
    """One API of Kafka.

    `versions` are those that the clients know. A response that is longer than `max_response_bytes` counts as an error,
    because the client would have to hold it in memory. A call that `waits` is answered only once others have acted,
    which may take minutes. `hint` is for users of a broker that does not serve the API. From the version
    `transactions_v2_from` on, a request says that its producer has transactions of version 2 (KIP-890). `failure`
    returns the error that a response has for the whole request, if there is one.
    """

    request: type[Request]
    response: type[Response]
    versions: range
    max_response_bytes: int = 16 * _MIB
    hint: str = ""
    waits: bool = False
    transactions_v2_from: int = _NEVER
    failure: Callable[[Response], OttlaError | None] = own_error
    call: str = ""
    """The name of a private call."""

    @property
    def key(self) -> int:
        """The number of the API."""
        return self.request.API_KEY

    @property
    def name(self) -> str:
        """The name of the API, or of a private call."""
        return self.call or self.request.__name__.removesuffix("Request")

    def before(self, version: int) -> Self:
        """Return this API without that version and those after it."""
        return self._replace(versions=range(self.versions[0], min(self.versions[-1] + 1, version)))

    def request_header(self, version: int) -> int:
        """Return the version of the header before a request (KIP-482)."""
        return 2 if version in schema_of(self.request.__name__).flexible else 1

    def response_header(self, version: int) -> int:
        """Return the version of the header before a response. The response to ApiVersions never has tags in its header,
        because it is read before the client knows what the broker understands (KIP-511)."""
        return int(self.key != API_VERSIONS.key and version in schema_of(self.response.__name__).flexible)


AnyApi: TypeAlias = Api[Any, Any]

API_VERSIONS: Final = Api(m.ApiVersionsRequest, m.ApiVersionsResponse, range(6), max_response_bytes=256 * _KIB)
SASL_HANDSHAKE: Final = Api(
    # After version 0 the messages of the mechanism would follow without frames.
    m.SaslHandshakeRequest,
    m.SaslHandshakeResponse,
    range(1, 2),
    max_response_bytes=64 * _KIB,
)
SASL_AUTHENTICATE: Final = Api(
    m.SaslAuthenticateRequest,
    m.SaslAuthenticateResponse,
    range(3),
    max_response_bytes=64 * _KIB,
)
OTTLA_CALL: Final = Api(
    # ottla's own (docs/adr/0028).
    OttlaCallRequest,
    OttlaCallResponse,
    range(1),
    waits=True,
    hint="use a cluster of ottla: Apache Kafka has nothing like it",
)
METADATA: Final = Api(
    # Older versions have no topic ids, by which the clients name topics.
    m.MetadataRequest,
    m.MetadataResponse,
    range(10, 14),
    max_response_bytes=128 * _MIB,
)
PRODUCE: Final = Api(m.ProduceRequest, m.ProduceResponse, range(3, 14), transactions_v2_from=12)
FETCH: Final = Api(
    m.FetchRequest,
    m.FetchResponse,
    range(4, 19),
    # The first batch comes whole, however little was asked for (KIP-74).
    max_response_bytes=MAX_BATCH_BYTES + 32 * _MIB,
)
LIST_OFFSETS: Final = Api(
    # Version 1 has no isolation level.
    m.ListOffsetsRequest,
    m.ListOffsetsResponse,
    range(2, 11),
)
OFFSET_FOR_LEADER_EPOCH: Final = Api(m.OffsetForLeaderEpochRequest, m.OffsetForLeaderEpochResponse, range(2, 5))
INIT_PRODUCER_ID: Final = Api(
    # Kafka serves version 6 only if unstable versions are enabled.
    m.InitProducerIdRequest,
    m.InitProducerIdResponse,
    range(6),
    failure=_of_transaction,
)
FIND_COORDINATOR: Final = Api(
    # Version 0 finds no coordinators of transactions.
    m.FindCoordinatorRequest,
    m.FindCoordinatorResponse,
    range(1, 7),
)
CREATE_TOPICS: Final = Api(m.CreateTopicsRequest, m.CreateTopicsResponse, range(7, 8), failure=_in_each("topics"))
"""This API and those below lack the versions that only brokers without topic ids need (Kafka before 2.8). The clients
can't use such brokers anyway (`METADATA`)."""
DELETE_TOPICS: Final = Api(m.DeleteTopicsRequest, m.DeleteTopicsResponse, range(6, 7), failure=_in_each("responses"))
DELETE_RECORDS: Final = Api(m.DeleteRecordsRequest, m.DeleteRecordsResponse, range(2, 3))
DESCRIBE_CONFIGS: Final = Api(
    m.DescribeConfigsRequest, m.DescribeConfigsResponse, range(4, 5), failure=_in_each("results")
)
DESCRIBE_CLUSTER: Final = Api(
    # Older versions leave fenced brokers out (KIP-1073).
    m.DescribeClusterRequest,
    m.DescribeClusterResponse,
    range(2, 3),
)
DESCRIBE_LOG_DIRS: Final = Api(m.DescribeLogDirsRequest, m.DescribeLogDirsResponse, range(2, 6))
DESCRIBE_TOPIC_PARTITIONS: Final = Api(m.DescribeTopicPartitionsRequest, m.DescribeTopicPartitionsResponse, range(1))
CREATE_PARTITIONS: Final = Api(
    m.CreatePartitionsRequest, m.CreatePartitionsResponse, range(2, 4), failure=_in_each("results")
)
ELECT_LEADERS: Final = Api(m.ElectLeadersRequest, m.ElectLeadersResponse, range(2, 3))
INCREMENTAL_ALTER_CONFIGS: Final = Api(
    m.IncrementalAlterConfigsRequest, m.IncrementalAlterConfigsResponse, range(1, 2), failure=_in_each("responses")
)
JOIN_GROUP: Final = Api(
    # Older versions have no static members.
    m.JoinGroupRequest,
    m.JoinGroupResponse,
    range(5, 10),
    waits=True,
)
SYNC_GROUP: Final = Api(m.SyncGroupRequest, m.SyncGroupResponse, range(3, 6), waits=True)
HEARTBEAT: Final = Api(m.HeartbeatRequest, m.HeartbeatResponse, range(3, 5))
LEAVE_GROUP: Final = Api(m.LeaveGroupRequest, m.LeaveGroupResponse, range(3, 6))
OFFSET_COMMIT: Final = Api(m.OffsetCommitRequest, m.OffsetCommitResponse, range(7, 11))
OFFSET_COMMIT_BY_NAME: Final = OFFSET_COMMIT._replace(versions=range(7, 10))
"""It lacks the versions that name topics by their ids (KIP-848)."""
OFFSET_FETCH: Final = Api(
    # Older versions can't ask for stable offsets (KIP-447).
    m.OffsetFetchRequest,
    m.OffsetFetchResponse,
    range(7, 11),
)
OFFSET_FETCH_BY_NAME: Final = OFFSET_FETCH._replace(versions=range(7, 10))
OFFSET_DELETE: Final = Api(m.OffsetDeleteRequest, m.OffsetDeleteResponse, range(1))
LIST_GROUPS: Final = Api(
    # Older versions don't know states of groups (KIP-518).
    m.ListGroupsRequest,
    m.ListGroupsResponse,
    range(4, 6),
    max_response_bytes=128 * _MIB,
)
CONSUMER_GROUP_DESCRIBE: Final = Api(m.ConsumerGroupDescribeRequest, m.ConsumerGroupDescribeResponse, range(2))
DESCRIBE_GROUPS: Final = Api(m.DescribeGroupsRequest, m.DescribeGroupsResponse, range(4, 7))
DELETE_GROUPS: Final = Api(m.DeleteGroupsRequest, m.DeleteGroupsResponse, range(4))
ADD_PARTITIONS_TO_TXN: Final = Api(
    # Later versions are for brokers.
    m.AddPartitionsToTxnRequest,
    m.AddPartitionsToTxnResponse,
    range(4),
)
ADD_OFFSETS_TO_TXN: Final = Api(m.AddOffsetsToTxnRequest, m.AddOffsetsToTxnResponse, range(5), failure=_of_transaction)
END_TXN: Final = Api(m.EndTxnRequest, m.EndTxnResponse, range(6), transactions_v2_from=5, failure=_of_transaction)
WRITE_TXN_MARKERS: Final = Api(m.WriteTxnMarkersRequest, m.WriteTxnMarkersResponse, range(1, 3))
TXN_OFFSET_COMMIT: Final = Api(
    # Older versions do not say which member of the group commits.
    m.TxnOffsetCommitRequest,
    m.TxnOffsetCommitResponse,
    range(3, 7),
    transactions_v2_from=5,
)
TXN_OFFSET_COMMIT_BY_NAME: Final = TXN_OFFSET_COMMIT.before(6)
"""It lacks the version that names topics by their ids (KIP-1319)."""
DESCRIBE_PRODUCERS: Final = Api(m.DescribeProducersRequest, m.DescribeProducersResponse, range(1))
DESCRIBE_TRANSACTIONS: Final = Api(m.DescribeTransactionsRequest, m.DescribeTransactionsResponse, range(1))
LIST_TRANSACTIONS: Final = Api(m.ListTransactionsRequest, m.ListTransactionsResponse, range(3))
DESCRIBE_ACLS: Final = Api(
    # Version 0 has no prefixes (KIP-290), and Kafka 4.0 does not serve it.
    m.DescribeAclsRequest,
    m.DescribeAclsResponse,
    range(1, 4),
    max_response_bytes=64 * _MIB,
)
CREATE_ACLS: Final = Api(m.CreateAclsRequest, m.CreateAclsResponse, range(1, 4))
DELETE_ACLS: Final = Api(m.DeleteAclsRequest, m.DeleteAclsResponse, range(1, 4), max_response_bytes=64 * _MIB)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final = Api(
    m.DescribeUserScramCredentialsRequest,
    m.DescribeUserScramCredentialsResponse,
    range(1),
)
ALTER_USER_SCRAM_CREDENTIALS: Final = Api(
    m.AlterUserScramCredentialsRequest, m.AlterUserScramCredentialsResponse, range(1)
)
