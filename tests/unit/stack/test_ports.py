"""A port that is held for a server that is down: refused meanwhile, given to no other, and its own again."""

from __future__ import annotations

import socket

import pytest

from ottla_stack.ports import hold, is_free


def test_a_held_port_is_refused_given_to_no_other_and_bound_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with hold(address[1]):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(address)
        with socket.create_server(address) as again, socket.create_connection(address, timeout=5):
            assert again.accept()[0].close() is None
    assert is_free(address[1])


def test_a_port_that_is_served_is_not_held() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(OSError, match="in use"):
        hold(server.getsockname()[1])
