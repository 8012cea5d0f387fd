"""Users are described from this broker's metadata, and the controller stores and deletes their credentials."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any, cast

from images import image_of

from ottla_broker.kafka.cluster_credentials import ClusterCredentials
from ottla_broker.kafka.handlers import alter_user_scram_credentials, describe_user_scram_credentials
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.security.scram import Mechanism, ScramCredential
from ottla_proto import controller_pb2 as pb
from ottla_proto.common_pb2 import Error

CONTEXT = KafkaContext(0, 1, "c", Reader(memoryview(b"")), Caller("127.0.0.1", "127.0.0.1"))
SHORT: Mechanism = "SCRAM-SHA-256"
LONG: Mechanism = "SCRAM-SHA-512"
SALTED = hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 4096)
OF_ALICE = ScramCredential.of_password(SHORT, "secret", salt=b"salt")

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
UserName = DescribeUserScramCredentialsRequest.UserName


class Cluster:
    """A backend of a cluster with these credentials, whose controller gives this answer."""

    def __init__(self, scram: dict[tuple[str, Mechanism], ScramCredential] | None = None, answer: Any = None) -> None:
        self.image: ClusterImage = replace(image_of(1), scram=scram or {})
        self.controller = self.metadata = self.replicas = self
        self.requests: list[Any] = []
        self.waits_for: Any = None
        self._answer = answer

    async def call(self, method: object, request: Any, *, timeout: float, principal: str) -> Any:
        self.requests.append(request)
        return self._answer

    async def wait_for(self, condition: object, timeout: float) -> None:
        raise TimeoutError

    async def until(self, condition: Any, *, timeout: float) -> None:
        self.waits_for = condition


async def described(cluster: Cluster, *users: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    named = [UserName(name=user) for user in users] if users else None
    request = DescribeUserScramCredentialsRequest(users=named)
    response = await describe_user_scram_credentials.handle(cast(Any, cluster), request, CONTEXT)
    return [(r.user, r.error_code, [(i.mechanism, i.iterations) for i in r.credential_infos]) for r in response.results]


async def test_users_are_described_without_their_secrets() -> None:
    of_long = ScramCredential.of_password(LONG, "secret", salt=b"salt", iterations=8192)
    cluster = Cluster({("bob", SHORT): OF_ALICE, ("alice", LONG): of_long, ("alice", SHORT): OF_ALICE})
    everyone = [("alice", 0, [(1, 4096), (2, 8192)]), ("bob", 0, [(1, 4096)])]
    assert await described(cluster) == everyone
    assert await described(cluster, "bob") == everyone[1:]


async def test_a_user_who_is_unknown_or_named_twice_is_reported() -> None:
    cluster = Cluster({("alice", SHORT): OF_ALICE})
    assert await described(cluster, "bob", "alice", "alice") == [
        ("bob", ErrorCode.RESOURCE_NOT_FOUND, []),
        ("alice", ErrorCode.DUPLICATE_RESOURCE, []),
    ]


def upsertion(user: str, **changed: Any) -> Upsertion:
    fields = {"mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": SALTED, **changed}
    return Upsertion(name=user, **fields)


async def altered(cluster: Cluster, *changes: Deletion | Upsertion) -> list[tuple[str, int]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, Deletion)],
        upsertions=[each for each in changes if isinstance(each, Upsertion)],
    )
    response = await alter_user_scram_credentials.handle(cast(Any, cluster), request, CONTEXT)
    return [(result.user, result.error_code) for result in response.results]


async def test_a_salted_password_is_forwarded_only_as_what_scram_keeps() -> None:
    cluster = Cluster(answer=pb.AlterScramCredentialsResponse(users=[pb.UserAltered(user="alice")]))
    assert await altered(cluster, upsertion("alice")) == [("alice", 0)]
    (change,) = cluster.requests[0].changes
    assert (change.stored_key, change.server_key) == (OF_ALICE.stored_key, OF_ALICE.server_key)
    assert SALTED not in cluster.requests[0].SerializeToString()
    assert not cluster.waits_for(cluster.image)
    assert cluster.waits_for(Cluster({("alice", SHORT): OF_ALICE}).image)


async def test_a_user_whose_change_is_not_acceptable_is_left_out_of_what_is_forwarded() -> None:
    answer = pb.AlterScramCredentialsResponse(
        users=[pb.UserAltered(user="dave", error=Error(code=ErrorCode.RESOURCE_NOT_FOUND, message="why"))]
    )
    cluster = Cluster(answer=answer)
    results = await altered(
        cluster,
        Deletion(name="dave", mechanism=2),
        Deletion(name="bob", mechanism=1),
        upsertion("bob", mechanism=9),
        upsertion("carol", iterations=100),
    )
    assert results == [
        ("dave", ErrorCode.RESOURCE_NOT_FOUND),
        ("bob", ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ("carol", ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ]
    assert [(change.user, change.mechanism, change.deletes) for change in cluster.requests[0].changes] == [
        ("dave", LONG, True)
    ]


class OneUser:
    def find(self, user: str, mechanism: Mechanism) -> ScramCredential | None:
        return OF_ALICE if (user, mechanism) == ("alice", SHORT) else None


def test_a_credential_of_the_cluster_counts_before_that_of_the_file() -> None:
    newer = ScramCredential.of_password(SHORT, "newer", salt=b"salt")
    file_alone = ClusterCredentials(cast(Any, Cluster()), OneUser())
    both = ClusterCredentials(cast(Any, Cluster({("alice", SHORT): newer})), OneUser())
    assert (file_alone.find("alice", SHORT), both.find("alice", SHORT)) == (OF_ALICE, newer)
    assert both.find("bob", SHORT) is None
