"""Both servers with TLS, logins and an authorizer, for the rows about security. The certificates are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from peers.kafka.server import KafkaServer

from loadtest.kafka.comparison import Figure, Goal
from loadtest.kafka.rows import Row
from loadtest.kafka.sides import Side, side_of
from ottla_stack.running import RunningStack
from ottla_stack.secure_files import ADMIN, LISTENER

_PROTOCOL: Final = "SASL_SSL"
_MECHANISM: Final = "SCRAM-SHA-512"
_OF_KAFKA_WITH_TLS: Final = Goal(least=0.8)
_PASSWORD: Final = "only-of-this-run"

ROWS: Final = (
    Row(
        "kafka.produce", (Figure("tls_produce", "TLS, login and ACLs: produce, 100 B", _OF_KAFKA_WITH_TLS),), share=0.5
    ),
    Row("kafka.consume", (Figure("tls_consume", "… consume, 100 B", _OF_KAFKA_WITH_TLS),), share=0.5, filled=True),
)
"""Against Apache Kafka."""


@contextmanager
def both_sides(directory: Path) -> Iterator[tuple[Side, Side]]:
    """Yield ottla and Kafka. The clients are the first user of each."""
    with RunningStack(directory / "ottla", brokers=1, group_coordinators=1, txn_coordinators=1, secure=True) as stack:
        files = stack.plan.secure
        assert files is not None, "it is secured"
        config = {
            "security.protocol": _PROTOCOL,
            "sasl.mechanism": _MECHANISM,
            "sasl.username": ADMIN,
            "ssl.ca.location": str(files.ca / "ca.pem"),
        }
        ours = side_of(stack).with_config({**config, "sasl.password": files.password.read_text().strip()})
        with _kafka(directory / "kafka", files.ca) as kafka:
            theirs = Side("kafka", kafka.bootstrap_of(_PROTOCOL), tuple(kafka.pids))
            yield ours, theirs.with_config({**config, "sasl.password": _PASSWORD})


def _kafka(directory: Path, ca: Path) -> KafkaServer:
    return KafkaServer(
        directory,
        listeners=(_PROTOCOL,),
        scram=[f"{_MECHANISM}=[name={ADMIN},password={_PASSWORD}]"],
        settings={
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            # Its own listeners have no logins.
            "super.users": f"User:ANONYMOUS;User:{ADMIN}",
            "sasl.enabled.mechanisms": _MECHANISM,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": ca / f"listener-{LISTENER}.keystore.pem",
            f"listener.name.{_PROTOCOL.lower()}.{_MECHANISM.lower()}.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
        },
    )
