"""For connectors to other systems, besides the clients: `pyspark_ottla` uses this, and nothing from inside the SDK.

A connector plans before it reads, and moves columns instead of records:

    cluster = ClusterClient(bootstrap_addresses(None), KafkaTransport("my-connector"))  # at OTTLA_BOOTSTRAP
    view = cluster.fetch_metadata(["orders"], timeout=30.0)
    ends = list_offsets_or_end(cluster, {ottla.TopicPartition("orders", 0): -1}, timeout=30.0)

`ottla.Consumer` returns its records as `Segment`s of `RecordRange`s, and `ottla.Producer` takes `ByteColumns`.
A mirror opens no record: `BatchReader` returns batches as they are in the log, and `Producer.send_batch` takes them.
"""

from ottla.admin.acl import acl_of, core_acl
from ottla.client.cluster import UNKNOWN_TOPIC_GRACE_S, ClusterClient
from ottla.client.epoch_ends import epoch_ends
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.list_offsets import list_offsets, list_offsets_or_end
from ottla.client.log_dirs import LogDirInfo, described_log_dirs
from ottla.client.security.names import SECURITY_NAMES, merged_security
from ottla.client.security.passwords import PASSWORD_NAMES
from ottla.client.security.profiles import Profile, load_profile
from ottla.client.security.security import PLAINTEXT, Security
from ottla.client.security.written_settings import BOOTSTRAP, written_settings
from ottla.client.settings import (
    CONSUMER_NAMES,
    PRODUCER_NAMES,
    Convert,
    bootstrap_addresses,
    check_topic,
    merge_config,
    read_properties,
)
from ottla.client.units import parse_duration, size_bytes
from ottla.consumer.batch import Segment
from ottla.consumer.batch_reader import BatchReader, FetchedBatches, ReadPosition
from ottla.consumer.completed_fetch import RecordRange
from ottla.machines.assignors import Assignments, Assignor, Subscriber, all_partitions, withhold_moving
from ottla.machines.metadata import TopicView
from ottla.machines.stickiness import Owned
from ottla.machines.transaction import PreparedTransaction
from ottla.producer.producer import check_config
from ottla.producer.send_columns import ByteColumns

__all__ = [
    "BOOTSTRAP",
    "CONSUMER_NAMES",
    "PASSWORD_NAMES",
    "PLAINTEXT",
    "PRODUCER_NAMES",
    "SECURITY_NAMES",
    "UNKNOWN_TOPIC_GRACE_S",
    "Assignments",
    "Assignor",
    "BatchReader",
    "ByteColumns",
    "ClusterClient",
    "Convert",
    "FetchedBatches",
    "KafkaTransport",
    "LogDirInfo",
    "Owned",
    "PreparedTransaction",
    "Profile",
    "ReadPosition",
    "RecordRange",
    "Security",
    "Segment",
    "Subscriber",
    "TopicView",
    "acl_of",
    "all_partitions",
    "bootstrap_addresses",
    "check_config",
    "check_topic",
    "core_acl",
    "described_log_dirs",
    "epoch_ends",
    "list_offsets",
    "list_offsets_or_end",
    "load_profile",
    "merge_config",
    "merged_security",
    "parse_duration",
    "read_properties",
    "size_bytes",
    "withhold_moving",
    "written_settings",
]
