"""gRPC ignores an option whose name it does not know, silently: every name of ours must be one of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from grpc._cython import cygrpc

from ottla_core.rpc.status import CHANNEL_OPTIONS, SERVER_OPTIONS


@pytest.mark.parametrize(("side", "options"), [("channel", CHANNEL_OPTIONS), ("server", SERVER_OPTIONS)])
def test_every_option_is_one_that_grpc_knows(side: str, options: tuple[tuple[str, int], ...]) -> None:
    library = Path(cygrpc.__file__).read_bytes()
    assert b"grpc.keepalive_time_ms\0" in library, "names lie in it as they are"
    unknown = [name for name, _ in options if name.encode() + b"\0" not in library]
    assert unknown == [], side


def test_a_server_lets_clients_ping_as_often_as_ours_do() -> None:
    client, server = dict(CHANNEL_OPTIONS), dict(SERVER_OPTIONS)
    assert server["grpc.http2.min_ping_interval_without_data_ms"] < client["grpc.keepalive_time_ms"]
    assert server["grpc.keepalive_permit_without_calls"] == client["grpc.keepalive_permit_without_calls"] == 1
