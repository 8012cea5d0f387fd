"""Scripted brokers: what a script may say, and how a connection to them ends."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.kafka.apis import METADATA
from ottla.client.kafka.exchange import Exchange
from ottla.errors import ErrorCode, OttlaError
from ottla.fakes.scripted import Hold, Reject, ScriptedCluster
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import MetadataRequest
from ottla_proto.contracts import Group, Txn


def test_what_no_client_sends_can_not_be_scripted() -> None:
    cluster = ScriptedCluster()
    cluster.will(Txn.PREPARE, Reject(ErrorCode.INVALID_TXN_STATE))
    with pytest.raises(ValueError, match=r"Group\.Join is no private call"):
        cluster.will(Group.JOIN, Reject(ErrorCode.INVALID_REQUEST))


def test_a_bug_in_a_script_ends_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ScriptedCluster({"t": 1})
    monkeypatch.setattr("threading.excepthook", lambda _: None)

    def broken(*_: Any) -> Any:
        raise KeyError("a bug")

    with Producer[Any, Any](
        "b0:1", topic="t", linger=0, request_timeout=0.5, delivery_timeout=1.0, _transport=cluster.connect
    ) as producer:
        producer.partitions_for()
        monkeypatch.setattr(cluster, "_produce", broken)
        assert isinstance(producer.send("x").exception(10), OttlaError)


def test_a_close_ends_a_call_on_hold() -> None:
    cluster = ScriptedCluster()
    cluster.will(METADATA, Hold())
    connection = cluster.connect("b0:1")
    connection.close()
    asked = Exchange(METADATA, lambda _: MetadataRequest(), lambda response: response)
    with pytest.raises(OttlaError) as caught:
        connection.exchange(asked, timeout=10)
    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION
