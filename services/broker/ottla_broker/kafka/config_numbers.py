"""Kafka's numbers for what configs belong to, for where their values come from, and for their types."""

from __future__ import annotations

from typing import Final

from ottla_core.configs.config_key import ConfigType
from ottla_core.configs.config_values import Source

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

SOURCES: Final = {
    Source.TOPIC: 1,
    Source.BROKER: 2,
    Source.CLUSTER: 3,
    Source.PROCESS: 4,
    Source.DEFAULT: 5,
    Source.CLIENT_METRICS: 7,
    Source.GROUP: 8,
}
"""The numbers of DescribeConfigsResponse.ConfigSource."""

LOGGER_SOURCE: Final = 6

TYPES: Final = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.INT: 3,
    ConfigType.SHORT: 4,
    ConfigType.LONG: 5,
    ConfigType.DOUBLE: 6,
    ConfigType.LIST: 7,
    ConfigType.CLASS: 8,
    ConfigType.PASSWORD: 9,
}
"""The numbers of DescribeConfigsResponse.ConfigType."""
