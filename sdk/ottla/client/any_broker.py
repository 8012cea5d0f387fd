"""Asks brokers in Kafka's own messages, for which none of our contracts has a method."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.client.cluster import ClusterClient
from ottla.client.kafka.apis import Api
from ottla.client.transport import Connection
from ottla_core.kafka.message import Message

Response = TypeVar("Response", bound=Message)


def ask_any_broker(
    cluster: ClusterClient,
    api: Api,
    request: Callable[[int], Message],
    response: type[Response],
    *,
    timeout: float,
) -> Response:
    """Return the response of some broker. `request` builds the message for a version.

    Raises what `ClusterClient.ask_any` raises.
    """
    return cluster.ask_any(api.name, _asking(api, request, response), timeout=timeout)


def ask_broker(
    cluster: ClusterClient,
    address: str,
    api: Api,
    request: Callable[[int], Message],
    response: type[Response],
    *,
    timeout: float,
) -> Response:
    """Return the response of the broker at the address. Raises what `ClusterClient.ask` raises."""
    return cluster.ask(address, _asking(api, request, response), timeout)


def _asking(
    api: Api, request: Callable[[int], Message], response: type[Response]
) -> Callable[[Connection, float], Response]:
    def ask(connection: Connection, timeout_s: float) -> Response:
        found = connection.exchange(api, request, timeout=timeout_s)
        assert isinstance(found, response)
        return found

    return ask
