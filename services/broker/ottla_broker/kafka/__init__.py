"""The Kafka protocol: a second thin adapter in front of the same logic that gRPC serves."""

from ottla_broker.kafka.kafka_python import import_protocol

import_protocol()
