"""Consumer: records of whole topics or chosen partitions, without a group, to the end of time or to a stop.

Reading goes chunk by chunk: what one fetch brought for one partition. A chunk's batches are checked and decompressed when
the reader comes to them, and their records are handed out one by one (`for record in consumer`) or in lists (`poll`,
`batches`); whichever way, the position of a partition is the offset after the last record that was handed out.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Literal

from ottla.cluster import Cluster
from ottla.errors import ErrorCode, SerializationError, config_error, error_from_code
from ottla.fetcher import Fetcher
from ottla.generics import K, V
from ottla.keeper import MetadataKeeper
from ottla.machines.metadata import ClusterView
from ottla.machines.subscription import FetchLimits, Position, Subscription
from ottla.offsets import list_offsets_or_end
from ottla.reading import Run, open_run
from ottla.record import Batch, Record, Segment, Serdes
from ottla.serdes import SerdeLike, deserializer
from ottla.settings import CONSUMER_NAMES, bootstrap_addresses, check_topic, merge_config, one_of, read_properties
from ottla.topics import Moment, moment_ms
from ottla.transport import Transport, grpc_transport
from ottla.units import Duration, Size, seconds, size_bytes
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

