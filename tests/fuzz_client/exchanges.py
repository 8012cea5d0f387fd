"""What the clients ask in Kafka's own messages, each with arguments that make sense."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from tests.fuzz_client.vocabulary import TOPIC, TOPIC_ID

from ottla.admin import acls, configs, partitions, topics, users
from ottla.admin.acl import Acl, Resource, core_acl
from ottla.client import kafka_descriptions, named_coordinators
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.client.log_dirs import described_log_dirs
from ottla_core.kafka.messages import (
    AlterUserScramCredentialsRequest,
    CreateTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from ottla_core.model import TopicPartition
from ottla_core.routing import GROUP, TXN
from ottla_core.security import acl_filter

_TOPIC_CONFIGS: Final = 2
_ACL: Final = core_acl(Acl.allow("User:u", "read", Resource.topic(TOPIC)))
_DELETION: Final = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="u", mechanism=1)


def _names() -> TopicNames:
    names = TopicNames()
    names.learn(TOPIC_ID, TOPIC)
    return names


def _new_topic() -> CreateTopicsRequest.CreatableTopic:
    return CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)


def _change() -> IncrementalAlterConfigsRequest.AlterableConfig:
    return IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", config_operation=0, value="7")


def _some(chance: random.Random) -> bool:
    return chance.random() < 0.5


EXCHANGES: Final[Mapping[str, Callable[[random.Random], Exchange[Any]]]] = MappingProxyType(
    {
        "acls.create": lambda chance: acls.creation([_ACL]),
        "acls.delete": lambda chance: acls.deletion([acl_filter.AclFilter()]),
        "acls.describe": lambda chance: acls.description(acl_filter.AclFilter()),
        "configs.alter": lambda chance: configs.alteration(_TOPIC_CONFIGS, TOPIC, [_change()], dry_run=_some(chance)),
        "configs.describe": lambda chance: configs.description([(_TOPIC_CONFIGS, TOPIC)]),
        "cluster.describe": lambda chance: kafka_descriptions.description_of_cluster(),
        "cluster.log_dirs": lambda chance: described_log_dirs([TopicPartition(TOPIC, 0)] if _some(chance) else None),
        "coordinators.find": lambda chance: named_coordinators.search(GROUP if _some(chance) else TXN, ["g"]),
        "partitions.can_import": lambda chance: partitions.import_of_nothing(),
        "partitions.elect": lambda chance: partitions.election(
            [(TOPIC, 0)] if _some(chance) else None, unclean=_some(chance)
        ),
        "topics.create": lambda chance: topics.creation(_new_topic(), dry_run=_some(chance)),
        "topics.delete": lambda chance: topics.deletion([TOPIC]),
        "topics.delete_records": lambda chance: topics.deletion_of_records(_names(), TOPIC_ID, {0: -1}),
        "topics.eligible_leaders": lambda chance: kafka_descriptions.description_of_leaders([TOPIC], None),
        "topics.grow": lambda chance: topics.growth(TOPIC, 1, dry_run=_some(chance)),
        "users.alter": lambda chance: users.alteration(AlterUserScramCredentialsRequest(deletions=[_DELETION])),
        "users.describe": lambda chance: users.description(["user"] if _some(chance) else []),
    }
)
