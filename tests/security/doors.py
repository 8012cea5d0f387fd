"""Starts clusters with logins, TLS and an authorizer: a door to each kind, and a broker for `port_fuzz`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from certificates import Authority
from guarded_settings import guarded_settings
from secured_kafka import USERS, SecuredKafka
from tests.fuzz.stack import Stack
from tests.security.door import USER, Door
from users import Users

from ottla_stack.ports import free_port_base

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
    settings = {
        **guarded_settings(folder, f"User:{_ADMIN}", USERS),
        "sasl-enabled-mechanisms": "PLAIN",
        "sasl-plain-without-tls": True,
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


@contextmanager
def fuzzed_broker(folder: Path) -> Iterator[tuple[Stack, tuple[int, int, int]]]:
    """Yield a broker and its ports: without TLS, with logins, and with TLS."""
    folder.mkdir(parents=True, exist_ok=True)
    base = free_port_base()
    ports = base, base + 1, base + 2
    authority = Authority(folder / "authority")
    settings = {
        "kafka-listeners": "OPEN://127.0.0.1:{},LOGIN://127.0.0.1:{},SEALED://127.0.0.1:{}".format(*ports),
        "kafka-listener-protocols": "OPEN:PLAINTEXT,LOGIN:SASL_PLAINTEXT,SEALED:SSL",
        "sasl-enabled-mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl-plain-without-tls": True,
        "sasl-credentials-file": Users(USERS).write(folder / "users.toml"),
        "connection-failed-authentication-delay-ms": 0,
        "ssl-keystore-location": authority.issue("broker", "IP:127.0.0.1").both,
    }
    with Stack(folder, broker=settings) as stack:
        yield stack, ports


def found_in(stack: Stack) -> list[str]:
    """Return what is wrong with a stack: processes that have ended, and tracebacks in logs."""
    logged = [log.name for log in stack.logs if "Traceback" in log.read_text()]
    return [*([stack.ended] if stack.ended else []), *(f"{name} has a traceback" for name in logged)]
