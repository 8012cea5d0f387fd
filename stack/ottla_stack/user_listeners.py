"""The Kafka listeners that a user's settings give the brokers of a stack, as OTTLA_BROKER__KAFKA_LISTENERS does.

All brokers read the same settings, and share a machine. So the settings apply to the first broker, and each further
broker has ports that are one higher.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.errors import config_error
from ottla_broker.config import BrokerConfig
from ottla_broker.listener_settings import KafkaListener
from ottla_core.host_port import HostPort
from ottla_core.process import service_config


def read_user_listeners(*, secure: bool) -> tuple[KafkaListener, ...]:
    """Return the listeners that the settings name, or none. Raises OttlaError for listeners that no stack can have."""
    config = service_config.load(BrokerConfig, "broker", ())
    if not config.kafka_listeners:
        return ()
    if secure:
        raise config_error(
            "kafka_listeners is set, and a secured stack has a listener of its own",
            hint="leave kafka_listeners out, or run brokers with your own files for TLS and logins",
        )
    for listener in config.kafka:
        if not listener.bound.port:
            raise config_error(
                f"kafka_listeners: {listener.name} has port 0, so nobody would know the brokers' addresses",
                hint="give the port of the first broker; each further broker uses the next port",
            )
    return config.kafka


def settings_of(listeners: Sequence[KafkaListener]) -> dict[str, object]:
    """Return the settings that give a broker these listeners."""
    advertised = [f"{each.name}://{each.advertised}" for each in listeners if each.advertised is not None]
    settings: dict[str, object] = {"kafka-listeners": ",".join(f"{each.name}://{each.bound}" for each in listeners)}
    return settings | ({"kafka-advertised": ",".join(advertised)} if advertised else {})


def of_broker(listener: KafkaListener, number: int) -> KafkaListener:
    """Return the listener of the broker with that number. An advertised port 0 stays, because it stands for the port on
    which the broker listens."""
    bound, advertised = listener.bound, listener.advertised
    return listener._replace(
        bound=HostPort(bound.host, bound.port + number),
        advertised=advertised and HostPort(advertised.host, advertised.port and advertised.port + number),
    )
