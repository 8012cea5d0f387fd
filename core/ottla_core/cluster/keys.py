"""The place of each part of the cluster's state in etcd. Only this module spells keys.

A key is a tuple (kind, *identity), which is also what `Change.key` holds. `key_text` spells it and `parse_key` reads it
back. Topics are keyed by name, partitions by topic id: a partition outlives no topic (docs/invariants.md).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, unquote

from ottla_core.model import PartitionId, TopicId
from ottla_core.security.scram import MECHANISMS

Key = tuple[Any, ...]

CONTROLLER: Key = ("controller",)
SEQ: Key = ("seq",)
PRODUCER_IDS: Key = ("producer_ids",)
BROKER_IDS: Key = ("broker_ids",)
RESTORED: Key = ("restored",)
TERMS: Key = ("terms",)
LOGIN_SECRET: Key = ("login_secret",)

_SINGLES = {
    "controller": CONTROLLER,
    "seq": SEQ,
    "producer-ids": PRODUCER_IDS,
    "broker-ids": BROKER_IDS,
    "restored": RESTORED,
    "terms": TERMS,
    "login-secret": LOGIN_SECRET,
}
_SINGLE_TEXTS = {key: text for text, key in _SINGLES.items()}


def broker(broker_id: int) -> Key:
    return ("broker", broker_id)


def last_incarnation(broker_id: int) -> Key:
    return ("last_life", broker_id)


def topic(name: str) -> Key:
    return ("topic", name)


def partition(partition_id: PartitionId) -> Key:
    return ("partition", partition_id)


def configs(scope: str, name: str) -> Key:
    """Return the key of configs. `scope` is "broker", "group" or "client-metrics", because a topic's configs lie in its
    own value. The broker "" is the cluster-wide default."""
    return ("configs", scope, name)


def acl(acl_id: bytes) -> Key:
    return ("acl", acl_id)


def scram(user: str, mechanism: str) -> Key:
    """Return the key of a user's credential."""
    return ("scram", user, mechanism)


def coordinator(kind: str, instance_id: int) -> Key:
    """Return the key of a coordinator's registration. `kind` is one of `model.SHARD_TOPICS`."""
    return ("coordinator", kind, instance_id)


def shard(kind: str, number: int) -> Key:
    return ("shard", kind, number)


def prefix(cluster_id: str) -> str:
    """Return the prefix of all keys of one cluster."""
    return f"/ottla/{cluster_id}/"


def key_text(cluster_id: str, key: Key) -> str:
    return prefix(cluster_id) + _path(key)


def _path(key: Key) -> str:
    match key:
        case ("broker", int(broker_id)):
            return f"brokers/{broker_id}"
        case ("last_life", int(broker_id)):
            return f"last-lives/{broker_id}"
        case ("topic", str(name)):
            return f"topics/{name}"
        case ("partition", (topic_id, int(number))):
            return f"partitions/{topic_id.hex()}/{number:05d}"
        case ("configs", str(scope), str(name)):
            return f"configs/{scope}/{quote(name, safe='')}"
        case ("acl", bytes(acl_id)):
            return f"acls/{acl_id.hex()}"
        case ("scram", str(user), str(mechanism)):
            return f"scram/{mechanism}/{quote(user, safe='')}"
        case ("coordinator", str(kind), int(instance_id)):
            return f"coordinators/{kind}/{instance_id}"
        case ("shard", str(kind), int(number)):
            return f"shards/{kind}/{number}"
        case _:
            return _SINGLE_TEXTS[key]


def parse_key(cluster_id: str, text: str) -> Key | None:
    """Return the key that `text` spells, or None, because a later release may have written a kind that this one doesn't
    know."""
    try:
        key = _parse(cluster_id, text)
    except ValueError:
        return None
    # A second spelling (`brokers/007`) is no valid key: it must not stand for what another key holds.
    return key if key is not None and key_text(cluster_id, key) == text else None


def _parse(cluster_id: str, text: str) -> Key | None:
    match text.removeprefix(prefix(cluster_id)).split("/"):
        case [single] if single in _SINGLES:
            return _SINGLES[single]
        case ["brokers", broker_id]:
            return broker(int(broker_id))
        case ["last-lives", broker_id]:
            return last_incarnation(int(broker_id))
        case ["topics", name]:
            return topic(name)
        case ["partitions", topic_id, number]:
            return partition(PartitionId(TopicId(bytes.fromhex(topic_id)), int(number)))
        case ["configs", scope, name]:
            return configs(scope, unquote(name, errors="strict"))
        case ["acls", acl_id]:
            return acl(bytes.fromhex(acl_id))
        case ["scram", mechanism, user] if mechanism in MECHANISMS:
            return scram(unquote(user, errors="strict"), mechanism)
        case ["coordinators", kind, instance_id]:
            return coordinator(kind, int(instance_id))
        case ["shards", kind, number]:
            return shard(kind, int(number))
        case _:
            return None
