"""The configs of Kafka that are in effect for a broker, by the metadata."""

from __future__ import annotations

from ottla_core.cluster.image import ClusterImage
from ottla_core.configs.config_values import EffectiveConfigs, resolve_broker


def broker_values(image: ClusterImage, broker_id: int) -> EffectiveConfigs:
    return resolve_broker(image.broker_configs(), image.broker_configs(broker_id), {})
