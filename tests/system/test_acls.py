"""ACLs of a cluster whose clients log in: a super user creates and deletes them, and they count at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from guarded_settings import guarded_settings
from tests.fuzz.stack import Stack
from users import PASSWORDS
from waiting import LIMIT_S, wait_until

import ottla

TOPIC, PRIVATE = "orders-eu", "private"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("guarded")
    with Stack(folder, broker=guarded_settings(folder)) as stack:
        address = f"127.0.0.1:{stack.kafka_port}"
        with ottla.Admin(address, login=login("alice")) as admin:
            for topic in (TOPIC, PRIVATE):
                admin.topics.create(topic)
        yield address


def login(user: str) -> ottla.Scram:
    return ottla.Scram(user, PASSWORDS[user], "SCRAM-SHA-256")


def confluent(address: str, user: str) -> Any:
    return AdminClient(
        {
            "bootstrap.servers": address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
        }
    )


def acl(operation: AclOperation, permission: AclPermissionType = AclPermissionType.ALLOW) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED
    return AclBinding(ResourceType.TOPIC, "orders-", pattern, "User:bob", "*", operation, permission)


def create(admin: Any, *acls: AclBinding) -> None:
    for future in admin.create_acls(list(acls)).values():
        future.result(LIMIT_S)


def every_acl(permission: AclPermissionType = AclPermissionType.ANY) -> AclBindingFilter:
    anything: Any = None
    any_pattern = ResourcePatternType.ANY
    return AclBindingFilter(ResourceType.ANY, anything, any_pattern, anything, anything, AclOperation.ANY, permission)


def can_write(producer: Any) -> bool:
    try:
        producer.send(b"v").result(LIMIT_S)
    except ottla.AuthorizationError:
        return False
    return True


def test_a_user_may_write_once_an_acl_allows_it_and_until_another_one_denies_it(guarded: str) -> None:
    admin = confluent(guarded, "alice")
    with ottla.Producer(guarded, topic=TOPIC, value="bytes", login=login("bob")) as producer:
        assert not can_write(producer)
    create(admin, acl(AclOperation.WRITE))
    with ottla.Producer(guarded, topic=TOPIC, value="bytes", login=login("bob")) as producer:
        assert can_write(producer)
        # The connection has the decision already, and must not keep it.
        create(admin, acl(AclOperation.ALL, AclPermissionType.DENY))
        wait_until(lambda: not can_write(producer))
    found = admin.describe_acls(every_acl()).result(LIMIT_S)
    assert {str(each) for each in found} == {
        str(acl(AclOperation.WRITE)),
        str(acl(AclOperation.ALL, AclPermissionType.DENY)),
    }
    (deleted,) = admin.delete_acls([every_acl(AclPermissionType.DENY)]).values()
    assert len(deleted.result(LIMIT_S)) == 1
    with ottla.Producer(guarded, topic=TOPIC, value="bytes", login=login("bob")) as producer:
        assert can_write(producer)


def test_who_may_not_alter_the_cluster_changes_no_acl(guarded: str) -> None:
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        create(confluent(guarded, "bob"), acl(AclOperation.ALL))


def test_a_topic_that_a_user_may_not_describe_is_not_listed(guarded: str) -> None:
    assert PRIVATE in confluent(guarded, "alice").list_topics(timeout=LIMIT_S).topics
    assert PRIVATE not in confluent(guarded, "bob").list_topics(timeout=LIMIT_S).topics
