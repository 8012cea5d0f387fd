"""Opens a door to a cluster of each kind, with logins, an authorizer and a super user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from secured_kafka import USERS, SecuredKafka
from tests.fuzz.stack import Stack
from tests.security.door import USER, Door
from users import Users

_ADMIN = "alice"


@contextmanager
def kafka_door(folder: Path) -> Iterator[Door]:
    kafka = SecuredKafka(folder)
    with kafka.server:
        # Who is not logged in is a super user there, on a listener of its own.
        door = Door(
            kafka.server.bootstrap_of("SASL_PLAINTEXT"), USERS[USER], {"bootstrap.servers": kafka.server.bootstrap}
        )
        try:
            yield door
        finally:
            door.close()


@contextmanager
def ottla_door(folder: Path) -> Iterator[Door]:
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "kafka-listener-protocols": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl-enabled-mechanisms": "PLAIN",
        "sasl-plain-without-tls": True,
        "sasl-credentials-file": Users(USERS).write(folder / "users.toml"),
        "authorizer-class-name": "StandardAuthorizer",
        "super-users": f"User:{_ADMIN}",
    }
    with Stack(folder, broker=settings) as stack:
        address = f"127.0.0.1:{stack.kafka_port}"
        admin = {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": _ADMIN,
            "sasl.password": USERS[_ADMIN],
        }
        door = Door(address, USERS[USER], admin)
        try:
            yield door
        finally:
            door.close()
