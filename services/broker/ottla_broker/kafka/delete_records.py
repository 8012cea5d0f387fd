"""DeleteRecords: this broker's partitions give up what lies before an offset; -1 is the high watermark (KIP-107).

The leader's log start moves at once. Followers move theirs as they fetch, and nobody waits for them.
"""

from __future__ import annotations

from typing import Final

from kafka.protocol.admin import DeleteRecordsResponse

from ottla_broker.kafka.backend import Backend, replica_by_name
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.errors import code_by_name
from ottla_broker.kafka.frames import Request
from ottla_broker.producing import check_client_may_write
from ottla_core.errors import OttlaError

_Topic: Final = DeleteRecordsResponse.DeleteRecordsTopicResult
_Partition: Final = _Topic.DeleteRecordsPartitionResult


def answer(backend: Backend, asked: Message, request: Request) -> Message:
    version = request.version
    topics = [
        _Topic(version=version, name=t.name, partitions=[_delete(backend, t.name, p, version) for p in t.partitions])
        for t in asked.topics
    ]
    return DeleteRecordsResponse(version=version, topics=topics)


def _delete(backend: Backend, topic: str, wanted: Message, version: int) -> Message:
    number, low_watermark, code = wanted.partition_index, -1, 0
    try:
        check_client_may_write(topic)
        low_watermark = replica_by_name(backend, topic, number, -1).delete_records(wanted.offset)
    except OttlaError as error:
        code = code_by_name(error)
    return _Partition(version=version, partition_index=number, low_watermark=low_watermark, error_code=code)
