"""What the controller's log says of changes that clients have requested."""

from __future__ import annotations

from typing import Any

import pytest

from ottla_controller.change_log import recorded
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.context import RequestContext
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller, Method

ALICE = RequestContext(principal="User:alice")
RESOURCE = pb.ConfigResource(type=pb.CONFIG_RESOURCE_TOPIC, name="orders")
CHANGES: dict[Method[Any, Any], tuple[Any, str]] = {
    Controller.CREATE_TOPICS: (pb.CreateTopicsRequest(topics=[pb.NewTopic(name="orders")]), "orders"),
    Controller.DELETE_TOPICS: (pb.DeleteTopicsRequest(names=["orders"], topic_ids=[b"\1"]), "orders, 01"),
    Controller.CREATE_PARTITIONS: (
        pb.CreatePartitionsRequest(topics=[pb.CreatePartitionsRequest().topics.add(name="orders")]),
        "orders",
    ),
    Controller.ALTER_CONFIGS: (
        pb.AlterConfigsRequest(resources=[pb.ConfigsAltered(resource=RESOURCE)]),
        "orders",
    ),
    Controller.ELECT_LEADERS: (
        pb.ElectLeadersRequest(partitions=[pb.PartitionOfTopic(topic="orders", partition=3)]),
        "orders-3",
    ),
    Controller.DECLARE_RESTORED: (pb.DeclareRestoredRequest(), "all"),
    Controller.CREATE_ACLS: (
        pb.CreateAclsRequest(acls=[pb.AclEntry(name="orders", principal="User:bob")]),
        "User:bob on orders",
    ),
    Controller.DELETE_ACLS: (
        pb.DeleteAclsRequest(filters=[pb.AclEntryFilter(name="orders", principal="User:bob")]),
        "User:bob on orders",
    ),
    Controller.ALTER_SCRAM_CREDENTIALS: (
        pb.AlterScramCredentialsRequest(changes=[pb.ScramChange(user="bob", salt=b"s3cret", stored_key=b"s3cret")]),
        "bob",
    ),
}


async def carried_out(method: Method[Any, Any], request: Any, context: RequestContext = ALICE) -> None:
    async def handler(request: Any, context: RequestContext) -> Any:
        return "the response"

    assert await recorded(method, handler)(request, context) == "the response"


@pytest.mark.parametrize("method", CHANGES, ids=lambda method: method.name)
async def test_a_change_is_logged_with_its_client_and_its_names_and_no_secret(
    method: Method[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    request, names = CHANGES[method]
    await carried_out(method, request)
    assert caplog.messages == [f"{method.name} for User:alice: {names}"]
    assert "s3cret" not in caplog.text


async def test_what_changes_nothing_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await carried_out(Controller.CREATE_TOPICS, pb.CreateTopicsRequest(validate_only=True))
    await carried_out(Controller.ALTER_PARTITION, pb.AlterPartitionRequest())

    async def rejecting(request: Any, context: RequestContext) -> Any:
        raise OttlaError(ErrorCode.NOT_CONTROLLER, "it is another one")

    with pytest.raises(OttlaError):
        await recorded(Controller.CREATE_TOPICS, rejecting)(pb.CreateTopicsRequest(), ALICE)
    assert caplog.messages == []


async def test_a_line_is_bounded_and_stays_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    topics = [pb.NewTopic(name=f"t-{n}\n" + "x" * 10_000) for n in range(500)]
    await carried_out(
        Controller.CREATE_TOPICS, pb.CreateTopicsRequest(topics=topics), RequestContext(principal="User:a\nb")
    )
    (line,) = caplog.messages
    assert line.startswith("CreateTopics for User:a\\nb: t-0\\nxxx")
    assert line.endswith(" and 490 others")
    assert "\n" not in line
    assert len(line) < 1_000
