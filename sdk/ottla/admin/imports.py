"""The exchanges that append batches of another log. Only brokers of ottla serve them."""

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
    """Return the exchange that appends whole batches at the offsets that they have. Its result is the offset after the
    last record."""
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
    """Return the exchange that finds out whether a broker serves imports. It names no topic, so it changes nothing.

    A broker that serves imports responds that there is no such topic, and this error is ignored. Raises
    UNSUPPORTED_VERSION if the broker does not serve them.
    """

    def build(terms: Terms) -> OttlaCallRequest:
        return OttlaCallRequest(method=ClientCalls.IMPORT_RECORDS.path, timeout_ms=terms.timeout_ms)

    def read(response: OttlaCallResponse) -> None:
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise_failed(response)

    return Exchange(OTTLA_CALL, build, read, takes_errors=True)
