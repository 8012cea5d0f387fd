"""What Kafka's clients and tools are answered."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

STORIES = (
    Story(
        "record-errors-are-empty",
        "A batch that was refused for some of its records named none, so clients blamed every one (KIP-467)",
        Edit(
            "services/broker/ottla_broker/kafka/handlers/produce.py",
            "bad = error.records if isinstance(error, BadRecordsError) else ()",
            "bad = ()",
        ),
    ),
    Story(
        "only-the-first-bad-record",
        "Of the records without a key only the first was found, so a client had to send the others one try at a time",
        Edit(
            "services/broker/ottla_broker/storage/validator.py",
            "bad = list(islice(keyless, MOST_NAMED))",
            "bad = list(islice(keyless, 1))",
        ),
    ),
    Story(
        "times-out-of-bounds-blame-all",
        "A batch that was refused for timestamps did not say which records have them",
        Edit(
            "services/broker/ottla_broker/storage/validator.py",
            "    if header.codec != Codec.NONE or header.size_bytes > _WALKED_BYTES:\n",
            "    if header.codec >= Codec.NONE:\n",
        ),
    ),
    Story(
        "log-start-is-missing-beside-an-error",
        "A refused produce told a log_start_offset of -1",
        Edit(
            "services/broker/ottla_broker/replication/produce.py",
            "            result.log_start_offset = replica.log.log_start_offset\n"
            "            appended = append(replica, records, self._acks, self._slice, self._transaction)\n",
            "            appended = append(replica, records, self._acks, self._slice, self._transaction)\n"
            "            result.log_start_offset = replica.log.log_start_offset\n",
        ),
    ),
    Story(
        "kafkas-config-is-unknown",
        "A config of Kafka's that has no use here was refused as unknown, and tools that set it failed",
        Edit(
            "core/ottla_core/config_values.py",
            "BROKER_CONFIGS.get(name) or OTHER_BROKER_CONFIGS.get(name) or of_listener(name, BROKER_CONFIGS)",
            "BROKER_CONFIGS.get(name)",
        ),
    ),
    Story(
        "groups-have-no-configs",
        "Configs of groups and of subscriptions to metrics could not be altered",
        Edit(
            "services/controller/ottla_controller/machines/configs.py",
            "    if resource.kind is not ResourceKind.BROKER:\n        return _alter_named(image, resource, ops)\n",
            "",
        ),
    ),
    Story(
        "loggers-have-no-configs",
        "A broker's loggers could not be described",
        Edit(
            "services/broker/ottla_broker/kafka/handlers/describe_configs.py",
            "return _loggers(resource, version) if resource.resource_type == BROKER_LOGGER else None",
            "return None",
        ),
    ),
    Story(
        "three-apis-are-not-served",
        "AlterReplicaLogDirs, DescribeQuorum and ListConfigResources ended the connection of who asked",
        Edit(
            "services/broker/ottla_broker/kafka/dispatch.py",
            "        api = self._apis.get(head.key)\n",
            "        api = self._apis.get(head.key) if head.key not in (34, 55, 74) else None\n",
        ),
    ),
    Story(
        "acls-cannot-be-described",
        "DescribeAcls ended the connection of who asked, so MirrorMaker 2 logged an error at each sync of ACLs",
        Edit(
            "services/broker/ottla_broker/kafka/dispatch.py",
            "        api = self._apis.get(head.key)\n",
            "        api = self._apis.get(head.key) if head.key != 29 else None\n",
        ),
    ),
    Story(
        "last-fetch-waits",
        "The fetch of no partitions by which a Java consumer ends its session waited for records: a close took 0.5 s",
        Edit(
            "services/broker/ottla_broker/kafka/handlers/fetch.py",
            "max(0, request.max_wait_ms) if session.size else 0",
            "max(0, request.max_wait_ms)",
        ),
    ),
    Story(
        "unknown-partition-is-elsewhere",
        "AlterReplicaLogDirs told a partition that nobody has as one that other brokers have",
        Edit(
            "services/broker/ottla_broker/kafka/handlers/alter_replica_log_dirs.py",
            "if partition is None or partition not in backend.image.partitions:",
            "if partition is None:",
        ),
    ),
    Story(
        "offset-of-nothing-is-deleted",
        "OffsetDelete of a partition that is not there was told as done",
        Edit(
            "services/broker/ottla_broker/kafka/handlers/offset_delete.py",
            "[element for element in named if element.partition in existing[element.topic]]",
            "list(named)",
        ),
    ),
    Story(
        "leader-is-missing-among-the-brokers",
        "Metadata named a leader that was fenced, and so missing among the brokers: clients looked for it in vain",
        Edit(
            "services/broker/ottla_broker/kafka/metadata_wire.py",
            "if leader in terms.unreachable or leader not in terms.live:",
            "if leader in terms.unreachable:",
        ),
    ),
    Story(
        "long-metadata-cuts-the-connection",
        "A commit with metadata of 40 kB cut the connection, and its client sent it again until it gave up",
        Edit("services/broker/ottla_broker/kafka/codec.py", 'frozenset({"committed_metadata"})', "frozenset[str]()"),
    ),
)
