"""Broker.DescribeLogDirs is Kafka's DescribeLogDirs.

Brokers of ottla add, in private fields, why a log can't be compacted, and whether a transaction is late. Brokers before
Kafka 3.3 do not know the size of the file system, which is then 0.
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import DESCRIBE_LOG_DIRS, Api
from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla_proto import client_pb2 as pb


class DescribeLogDirsTranslation:
    """Translates a request for one broker's directories."""

    api: Final[Api] = DESCRIBE_LOG_DIRS

    def request(self, request: pb.DescribeLogDirsRequest, terms: Terms) -> DescribeLogDirsRequest:
        topic = DescribeLogDirsRequest.DescribableLogDirTopic
        named = [topic(topic=each.topic, partitions=list(each.partitions)) for each in request.topics]
        return DescribeLogDirsRequest(topics=named or None)

    def response(self, response: DescribeLogDirsResponse, terms: Terms) -> pb.DescribeLogDirsResponse:
        described = pb.DescribeLogDirsResponse(error=error_of(response.error_code))
        for directory in response.results:
            added = described.log_dirs.add(
                error=error_of(directory.error_code),
                path=directory.log_dir,
                total_bytes=max(0, directory.total_bytes),
                usable_bytes=max(0, directory.usable_bytes),
            )
            for topic in directory.topics:
                topic_id = terms.names.id_of(topic.name)
                for partition in topic.partitions:
                    if not partition.is_future_key:  # a copy that is being moved here from another directory
                        added.partitions.add(
                            topic_id=topic_id,
                            topic=topic.name,
                            partition=partition.partition_index,
                            size_bytes=max(0, partition.partition_size),
                            uncleanable=partition.uncleanable,
                            late_transaction=partition.late_transaction,
                            incomplete=partition.incomplete,
                        )
        return described
