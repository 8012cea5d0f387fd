"""Lists what each private method needs, and tries each method at a guarded broker with different ACLs."""

from __future__ import annotations

from typing import Any

from authorization_cells import (
    ALTER,
    CODES,
    DESCRIBE,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    READ_GROUP,
    READ_TOPIC,
    WRITE_ID,
    WRITE_TOPIC,
    topic,
    transactional_id,
)
from guarded import DENIED, GROUP, TOPIC, TOPIC_ID, TRANSACTIONAL_ID, Grant, GuardedBroker
from tests.security.matrix import Matrix

from ottla_core.kafka.private_messages import OttlaCallRequest
from ottla_core.security.acl import Acl, Permission
from ottla_proto import broker_pb2, group_pb2, mirror_pb2, txn_pb2
from ottla_proto.contracts import ClientCalls, Controller, Group, Mirror, Txn
from ottla_proto.operation import Operation

_OFFSETS = [group_pb2.OffsetToCommit(topic=TOPIC, partition=0, offset=1)]
_MARKER = group_pb2.ShardsMarker(shards=[0])
PRIVATE_CASES: list[tuple[Any, Any, tuple[Grant, ...]]] = [
    (
        ClientCalls.IMPORT_RECORDS,
        broker_pb2.ImportRecordsRequest(topic_id=TOPIC_ID),
        (WRITE_TOPIC, topic(Operation.DELETE)),
    ),
    (ClientCalls.REPLICA_EPOCHS, broker_pb2.ReplicaEpochsRequest(topic_id=TOPIC_ID), (DESCRIBE_TOPIC,)),
    (Controller.DECLARE_RESTORED, Controller.DECLARE_RESTORED.request(), (ALTER,)),
    (
        Group.COMMIT_OFFSETS,
        group_pb2.CommitOffsetsRequest(group=GROUP, offsets=_OFFSETS, only_first=True),
        (READ_GROUP, READ_TOPIC),
    ),
    (Group.EXPLAIN_GROUP, group_pb2.ExplainGroupRequest(group=GROUP), (DESCRIBE_GROUP,)),
    (Group.LAG, group_pb2.LagRequest(group=GROUP), (DESCRIBE_GROUP,)),
    (Group.SHARDS, Group.SHARDS.request(), (DESCRIBE,)),
    (Group.WRITE_TXN_MARKERS, group_pb2.WriteShardMarkersRequest(markers=[_MARKER]), (ALTER,)),
    (
        Txn.PREPARE,
        txn_pb2.PrepareRequest(transactional_id=TRANSACTIONAL_ID),
        (WRITE_ID, transactional_id(Operation.TWO_PHASE_COMMIT)),
    ),
    (Txn.FORGET, txn_pb2.ForgetRequest(transactional_id=TRANSACTIONAL_ID), (WRITE_ID,)),
    (Txn.SHARDS, Txn.SHARDS.request(), (DESCRIBE,)),
    (Mirror.MIRROR_STATUS, mirror_pb2.MirrorStatusRequest(), (DESCRIBE,)),
    (
        Mirror.TRANSLATE_OFFSETS,
        mirror_pb2.TranslateOffsetsRequest(offsets=[mirror_pb2.SourceOffset(topic=TOPIC)]),
        (DESCRIBE_TOPIC,),
    ),
    (Mirror.GROUP_POSITIONS, mirror_pb2.GroupPositionsRequest(group=GROUP), (DESCRIBE_GROUP,)),
    (Mirror.PAUSE_FLOW, mirror_pb2.PauseFlowRequest(), (ALTER,)),
    (Mirror.FAILOVER, mirror_pb2.MoveGroupsRequest(), (ALTER,)),
    (Mirror.FAILBACK, mirror_pb2.MoveGroupsRequest(), (ALTER,)),
]


async def private_code(method: Any, message: Any, *acls: Acl) -> int:
    request = OttlaCallRequest(method=method.path, timeout_ms=1000, body=message.SerializeToString())
    response = await GuardedBroker(*acls).ask(request, 0)
    assert response.error_code == 0
    code: int = method.response.FromString(response.body).error.code
    return code


async def try_private() -> Matrix:
    """Try each method with no ACL, ACLs for other resources, a DENY of each need, each need missing, and all of
    them."""
    matrix = Matrix()
    for method, message, needs in PRIVATE_CASES:
        matrix.methods.add(method.path)
        allowed = [need.acl() for need in needs]
        refused = CODES[needs[0].resource_type]
        settings: list[tuple[str, list[Acl], frozenset[int]]] = [
            ("no ACL", [], frozenset({refused})),
            ("wrong resource", [need.elsewhere().acl() for need in needs], frozenset(DENIED)),
        ]
        for need in needs:
            codes = frozenset({CODES[need.resource_type]})
            settings.append((f"deny {need.operation.name}", [*allowed, need.acl(Permission.DENY)], codes))
            settings.append((f"without {need.operation.name}", [acl for acl in allowed if acl != need.acl()], codes))
        for name, acls, expected in settings:
            matrix.cells += 1
            if (code := await private_code(method, message, *acls)) not in expected:
                matrix.wrong.append(f"{method.path}, {name}: {code} instead of {sorted(expected)}")
        matrix.cells += 1
        if (code := await private_code(method, message, *allowed)) in DENIED:
            matrix.wrong.append(f"{method.path}, allow: {code}")
    return matrix
