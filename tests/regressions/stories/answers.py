"""Answers to Kafka's clients and tools."""

from __future__ import annotations

from tests.regressions.injection import constant, instead_of, skipped
from tests.regressions.story import Story

_HANDLERS = "ottla_broker.kafka.handlers"


def _log_start_found_late(original, self, partition_id, records):
    result = original(self, partition_id, records)
    if result.error is not None:
        result.log_start_offset = -1
    return result


def _nothing_within_no_bytes(original, request, consumers, max_bytes, room, *, first):
    return original(request, consumers, max_bytes, room, first=first and max_bytes > 0)


def _taken_for_a_broker(original, image, resource, ops):
    from ottla_controller.machines import configs

    return configs._broker_id(image, resource.name)


def _elsewhere(original, backend, topic, number, local):
    from ottla_core.errors import ErrorCode

    code = original(backend, topic, number, local)
    is_unknown = code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and backend.id_of(topic, number) is not None
    return ErrorCode.REPLICA_NOT_AVAILABLE if is_unknown else code


def _without(*keys):
    """Serve no API of these keys."""

    def handle(original, self, head, frame, caller):
        return original(self, head._replace(key=-1) if head.key in keys else head, frame, caller)

    return handle


def _as_it_is(original, self, api, version, code):
    return code


def _fenced_for_good(original, self, api, version, code):
    return code if (api, code) == ("Produce", 90) else original(self, api, version, code)


def _rejected_below(original, error):
    from ottla_core.kafka.messages import UpdateFeaturesResponse

    rejected = UpdateFeaturesResponse.UpdatableFeatureResult(feature="metadata.version", **original(error))
    return {"error_code": 0, "error_message": None, "results": [rejected]}


async def _without_markers_times(original, producers):
    found = await original(producers)
    return [each if each.last_sequence >= 0 else each._replace(last_timestamp_ms=-1) for each in found]


def _never_began(original, record):
    from dataclasses import replace

    return replace(original(record), started_at_ms=-1)


STORIES = (
    Story(
        "code-unknown-to-client",
        "Clients got error codes that their version of an API does not know, and took a passing fault for a fatal one",
        instead_of("ottla_broker.kafka.error_codes:Errors.sent", _as_it_is),
    ),
    Story(
        "fenced-producer-dies",
        "A transactional producer that was fenced or timed out got a code that ended it, where it could have aborted",
        instead_of("ottla_broker.kafka.error_codes:Errors.sent", _fenced_for_good),
    ),
    Story(
        "rejected-feature",
        "UpdateFeatures 0 and 1 reported a rejection where clients did not look, and they took it for success",
        instead_of(f"{_HANDLERS}.update_features:error_fields", _rejected_below),
    ),
    Story(
        "marker-without-a-time",
        "kafka-transactions describe-producers showed no time for a producer whose newest batch is a marker",
        instead_of("ottla_broker.partition_requests.active_producers:active_producers", _without_markers_times),
    ),
    Story(
        "transaction-that-never-began",
        "kafka-transactions describe did not show when a transaction that is over began",
        instead_of("ottla_txn_coordinator.machines.transaction:_without_transaction", _never_began),
    ),
    Story(
        "record-errors-are-empty",
        "A batch that was refused for some of its records named none of them, so clients blamed every record (KIP-467)",
        instead_of(f"{_HANDLERS}.produce:_write_record_errors", lambda original, writer, error: original(writer, None)),
    ),
    Story(
        "only-the-first-bad-record",
        "Only the first record without a key was named, so a client had to send the others one try at a time",
        constant("ottla_broker.storage.validator:MOST_NAMED", 1),
    ),
    Story(
        "times-out-of-bounds-blame-all",
        "A batch that was refused for its timestamps did not say which records have them",
        skipped("ottla_broker.storage.validator:_out_of_time", []),
    ),
    Story(
        "log-start-is-missing-beside-an-error",
        "The answer to a refused produce had a log_start_offset of -1",
        instead_of("ottla_broker.replication.produce:Produce.append", _log_start_found_late),
    ),
    Story(
        "fetch-of-no-bytes-gets-none",
        "A fetch that allowed no bytes got no records, where Apache Kafka's brokers send the first batch (KIP-74)",
        instead_of("ottla_broker.replication.fetch:_read", _nothing_within_no_bytes),
    ),
    Story(
        "kafkas-config-is-unknown",
        "A config of Kafka's that has no effect here was refused as unknown, and tools that set it failed",
        constant("ottla_core.configs.config_values:OTHER_BROKER_CONFIGS", {}),
    ),
    Story(
        "groups-have-no-configs",
        "Configs of groups and of subscriptions to metrics could not be altered",
        instead_of("ottla_controller.machines.configs:_alter_named", _taken_for_a_broker),
    ),
    Story(
        "loggers-have-no-configs",
        "A broker's loggers could not be described",
        skipped(f"{_HANDLERS}.describe_configs:_loggers"),
    ),
    Story(
        "three-apis-are-not-served",
        "AlterReplicaLogDirs, DescribeQuorum and ListConfigResources ended the client's connection",
        instead_of("ottla_broker.kafka.dispatch:Dispatcher.handle", _without(34, 55, 74)),
    ),
    Story(
        "acls-cannot-be-described",
        "DescribeAcls ended the client's connection, so MirrorMaker 2 logged an error at each sync of ACLs",
        instead_of("ottla_broker.kafka.dispatch:Dispatcher.handle", _without(29)),
    ),
    Story(
        "last-fetch-waits",
        "A Java consumer ends its session by a fetch of no partitions; it waited for records, and close() took 0.5 s",
        instead_of(
            f"{_HANDLERS}.fetch:_limits",
            lambda original, request, session, room: original(request, session, room)._replace(
                max_wait_s=request.max_wait_ms / 1000
            ),
        ),
    ),
    Story(
        "unknown-partition-is-elsewhere",
        "AlterReplicaLogDirs answered for a partition that does not exist as for one that other brokers have",
        instead_of(f"{_HANDLERS}.alter_replica_log_dirs:_code", _elsewhere),
    ),
    Story(
        "offset-of-nothing-is-deleted",
        "OffsetDelete of a partition that does not exist was answered as done",
        skipped(f"{_HANDLERS}.offset_delete:existing_partitions", range(2**31)),
    ),
    Story(
        "leader-is-missing-among-the-brokers",
        "Metadata named a leader that was fenced and so not among its brokers: clients looked for it in vain",
        instead_of(
            "ottla_broker.kafka.wire.metadata:write_partition",
            lambda original, terms, number, partition: original(
                terms._replace(live=terms.live | {partition.leader}), number, partition
            ),
        ),
    ),
    Story(
        "long-metadata-cuts-the-connection",
        "A commit with metadata of 40 kB cut the connection, and its client sent it again until it gave up",
        constant("ottla_core.kafka.decoder_source:_LONG", frozenset()),
    ),
)
