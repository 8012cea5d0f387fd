"""Plays a whole producer, consumer or operator, which goes on after the misdeed, or raises one OttlaError."""

from __future__ import annotations

import time
import traceback
from typing import Any, Final

from tests.fuzz_client.case import Case, Level
from tests.fuzz_client.ending import Ending, How
from tests.fuzz_client.logins import login_of
from tests.fuzz_client.misdeeds import MISDEEDS
from tests.fuzz_client.vocabulary import HOST, RECORDS, TOPIC

import ottla
from ottla.client.cluster import ClusterClient
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.kafka_descriptions import describe_cluster, eligible_leaders
from ottla.client.named_coordinators import NamedCoordinators
from ottla.client.security.security import Security
from ottla.errors import OttlaError
from ottla_core.routing import GROUP

_REQUEST_S: Final = 0.5
_DELIVERY_S: Final = 2.0
_POLL_S: Final = 0.2
LIMIT_S: Final = 12.0
"""How long a whole client may take, with all of its timeouts one after the other."""


def play_client(case: Case, port: int) -> Ending:
    """Send three records, or read those that are there, or ask what only Kafka's own messages can ask."""
    until = time.monotonic() + LIMIT_S
    try:
        ending = _PLAYS[case.level](case, port, until)
    except OttlaError as error:
        ending = Ending(How.ERROR, str(error))
    except Exception:
        ending = Ending(How.CRASH, traceback.format_exc())
    ending.late_s = time.monotonic() - until
    return ending


def _transport(case: Case) -> KafkaTransport:
    return KafkaTransport(case.client_id, Security(login_of(case.mechanism)))


def _produce(case: Case, port: int, until: float) -> Ending:
    with ottla.Producer[Any, Any](
        f"{HOST}:{port}",
        topic=TOPIC,
        value="bytes",
        linger=0.0,
        request_timeout=_REQUEST_S,
        delivery_timeout=_DELIVERY_S,
        max_block=_DELIVERY_S,
        connect_timeout=_DELIVERY_S,
        retry_backoff=0.01,
        metadata_max_age=0.5,
        enable_idempotence=case.chance("client").random() < 0.7,
        client_id=case.client_id,
        _transport=_transport(case),
    ) as producer:
        deliveries = [producer.send(b"%d" % number) for number in range(3)]
        producer.flush()
        for delivery in deliveries:
            delivery.result()
    return Ending(How.RESPONSE)


def _consume(case: Case, port: int, until: float) -> Ending:
    values: list[object] = []
    with ottla.Consumer[Any, Any](
        TOPIC,
        bootstrap=f"{HOST}:{port}",
        start="earliest",
        value="bytes",
        request_timeout=_REQUEST_S,
        connect_timeout=_DELIVERY_S,
        fetch_max_wait=0.05,
        metadata_max_age=0.5,
        client_id=case.client_id,
        _transport=_transport(case),
    ) as consumer:
        while len(values) < RECORDS and time.monotonic() < until - _POLL_S:
            values += [record.value for record in consumer.poll(_POLL_S)]
            if MISDEEDS[case.misdeed].speaks_well and time.monotonic() > until - LIMIT_S / 2:
                break  # it has believed values that make no sense, and looks again later
    misdeed, faults = MISDEEDS[case.misdeed], []
    becomes_honest = not (misdeed.speaks_well or misdeed.lasting)
    if becomes_honest and values != [b"value"] * RECORDS:
        faults.append(f"the consumer has read {values!r:.300}")
    return Ending(How.RESPONSE, faults=faults)


def _operate(case: Case, port: int, until: float) -> Ending:
    cluster = ClusterClient([f"{HOST}:{port}"], _transport(case), connect_timeout=_DELIVERY_S)
    try:
        describe_cluster(cluster, timeout=_DELIVERY_S)
        eligible_leaders(cluster, (TOPIC,), timeout=_DELIVERY_S)
        NamedCoordinators(cluster, GROUP).find(("g", "h"), timeout=_DELIVERY_S)
    finally:
        cluster.close()
    return Ending(How.RESPONSE)


_PLAYS: Final = {Level.PRODUCER: _produce, Level.CONSUMER: _consume, Level.OPERATOR: _operate}
