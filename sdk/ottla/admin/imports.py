"""The exchanges that append batches of another log, which brokers of ottla take."""

from __future__ import annotations

from ottla.client.kafka.apis import OTTLA_CALL
from ottla.client.kafka.exchange import Exchange, Terms, raise_failed
from ottla.client.kafka.private_call import private_call
from ottla.errors import ErrorCode
from ottla_core.kafka.private_messages import OttlaCallRequest, OttlaCallResponse
from ottla_core.model import PartitionId
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import ClientCalls


def import_of(
    partition: PartitionId, records: bytes, *, expected_offset: int, log_start_offset: int, timeout_ms: int
) -> Exchange[int]:
    """Return the exchange that appends whole batches at the offsets that they have. It returns the offset after
    them."""
    request = pb.ImportRecordsRequest(
        topic_id=partition.topic_id,
        partition=partition.partition,
        expected_next_offset=expected_offset,
        records=records,
        log_start_offset=log_start_offset,
        timeout_ms=timeout_ms,
    )
    return private_call(ClientCalls.IMPORT_RECORDS, request, lambda response: response.next_offset)


def import_of_nothing() -> Exchange[None]:
    """Return the exchange that a broker answers if it serves imports. It changes nothing, because it names no topic.

    The error that there is no such topic is the answer of a broker that does.
    """

    def build(terms: Terms) -> OttlaCallRequest:
        return OttlaCallRequest(method=ClientCalls.IMPORT_RECORDS.path, timeout_ms=terms.timeout_ms)

    def read(response: OttlaCallResponse) -> None:
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise_failed(response)

    return Exchange(OTTLA_CALL, build, read, takes_errors=True)
