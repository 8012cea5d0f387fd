"""Peers by address: one connection each, closed when its process is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ottla_core.rpc import peers as module
from ottla_core.rpc.peers import Peers


class ScriptedPeer:
    made: list[ScriptedPeer]

    def __init__(self, address: str, *, client_id: str = "", tls: None = None) -> None:
        self.address, self.client_id, self.closed = address, client_id, False
        self.made.append(self)

    async def close(self) -> None:
        self.closed = True


@pytest.fixture
async def peers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Peers]:
    ScriptedPeer.made = []
    monkeypatch.setattr(module, "AioPeer", ScriptedPeer)
    peers = Peers(client_id="me")
    yield peers
    await peers.close()


async def test_an_address_has_one_connection(peers: Peers) -> None:
    assert peers.at("a") is peers.at("a")
    assert peers.at("b") is not peers.at("a")
    assert [(peer.address, peer.client_id) for peer in ScriptedPeer.made] == [("a", "me"), ("b", "me")]


async def test_what_is_gone_is_closed_and_the_rest_stays(peers: Peers) -> None:
    stays, _ = peers.at("a"), peers.at("b")
    peers.retain({"a", "c"})
    assert peers.at("a") is stays
    await peers.close()
    assert [peer.closed for peer in ScriptedPeer.made] == [True, True]
    assert peers.at("a") is not stays, "a closed one is connected anew"
