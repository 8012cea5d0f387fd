"""Translates between the bytes in etcd and the dataclasses of `image`. Only here is cluster state protobuf.

Every value carries `format`. This release writes and reads format 1 and rejects any other with a message. If it guessed
at a value, every process of the cluster would apply the guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from ottla_core.cluster.acl_entries import acl_of, fields_of
from ottla_core.cluster.history import Term
from ottla_core.cluster.image import (
    Broker,
    BrokerIds,
    Controller,
    Coordinator,
    LastIncarnation,
    LoginSecret,
    Partition,
    ProducerIds,
    ResourceConfigs,
    Restored,
    Shard,
    Topic,
)
from ottla_core.cluster.keys import Key
from ottla_core.cluster.store import KeyValue
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId
from ottla_core.security.acl import Acl
from ottla_core.security.scram import ScramCredential
from ottla_proto import state_pb2 as pb

FORMAT: Final = 1


def encode(key: Key, value: Any) -> bytes:
    """Return the bytes of `value`, the dataclass (for `seq` the int) that belongs to a key of this kind."""
    return _KINDS[key[0]].to_message(value).SerializeToString(deterministic=True)


def decode(key: Key, entry: KeyValue) -> Any:
    """Return the object that `entry` holds, with the epochs and revisions that etcd keeps beside the value.

    Raises OttlaError UNSUPPORTED_VERSION for a format of another release, and KAFKA_STORAGE_ERROR for damaged bytes.
    """
    kind = _KINDS[key[0]]
    message: Any = kind.message()
    try:
        message.ParseFromString(entry.value)
    except DecodeError:
        raise OttlaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the value of {entry.key} in etcd is damaged",
            hint="another program may have overwritten the key: restore its value, or delete the key",
        ) from None
    if message.format != FORMAT:
        raise OttlaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the value of {entry.key} in etcd has format {message.format}, but this release reads format {FORMAT}",
            hint="run the release that wrote the value, or a later one",
        )
    return kind.from_message(key, message, entry)


@dataclass(frozen=True, slots=True)
class _Kind:
    message: type[Message]
    to_message: Callable[[Any], Message]
    from_message: Callable[[Key, Any, KeyValue], Any]


def _topic_to(value: Topic) -> Message:
    return pb.Topic(
        format=FORMAT, topic_id=value.id, partition_count=value.partition_count, configs=dict(value.configs)
    )


def _topic_from(key: Key, message: pb.Topic, entry: KeyValue) -> Topic:
    return Topic(
        name=key[1],
        id=TopicId(message.topic_id),
        partition_count=message.partition_count,
        configs=dict(message.configs),
        mod_revision=entry.mod_revision,
    )


def _partition_to(value: Partition) -> Message:
    return pb.Partition(
        format=FORMAT,
        replicas=value.replicas,
        leader=value.leader,
        leader_epoch=value.leader_epoch,
        isr=value.isr,
        partition_epoch=value.partition_epoch,
        adding_replicas=value.adding,
        removing_replicas=value.removing,
        recovering=value.recovering,
        elr=value.elr,
        last_known_elr=value.last_known_elr,
        directories=value.directories,
        restored=value.restored,
    )


def _partition_from(key: Key, message: pb.Partition, entry: KeyValue) -> Partition:
    return Partition(
        replicas=tuple(message.replicas),
        leader=message.leader,
        leader_epoch=message.leader_epoch,
        isr=tuple(message.isr),
        partition_epoch=message.partition_epoch,
        adding=tuple(message.adding_replicas),
        removing=tuple(message.removing_replicas),
        recovering=message.recovering,
        elr=tuple(message.elr),
        last_known_elr=tuple(message.last_known_elr),
        directories=dict(message.directories),
        restored=message.restored,
        mod_revision=entry.mod_revision,
    )


def _broker_to(value: Broker) -> Message:
    return pb.Broker(
        format=FORMAT,
        directory_id=value.directory_id,
        address=value.address,
        kafka_address=value.kafka_address,
        kafka_listeners=value.kafka_listeners,
        rack=value.rack,
        fenced=value.fenced,
        incarnation=value.incarnation,
        epoch=value.epoch,
        unclean=value.unclean,
        shutting_down=value.shutting_down,
        read_only=value.read_only,
        secret=value.secret,
        ahead_of=value.ahead_of,
    )


def _broker_from(key: Key, message: pb.Broker, entry: KeyValue) -> Broker:
    return Broker(
        id=key[1],
        # The epoch is not the value's own. Whatever is put, and by any process, a registration's epoch is the revision
        # at which it began.
        epoch=entry.create_revision,
        directory_id=message.directory_id,
        address=message.address,
        kafka_address=message.kafka_address,
        kafka_listeners=dict(message.kafka_listeners),
        rack=message.rack,
        fenced=message.fenced,
        incarnation=message.incarnation,
        unclean=message.unclean,
        shutting_down=message.shutting_down,
        read_only=message.read_only,
        secret=message.secret,
        ahead_of=message.ahead_of if message.HasField("ahead_of") else None,
        lease=entry.lease,
        mod_revision=entry.mod_revision,
    )


def _last_incarnation_to(value: LastIncarnation) -> Message:
    return pb.LastLife(
        format=FORMAT,
        incarnation=value.incarnation,
        directory_id=value.directory_id,
        epoch=value.epoch,
        renewals=value.renewals,
    )


def _last_incarnation_from(key: Key, message: pb.LastLife, entry: KeyValue) -> LastIncarnation:
    # With a registration it is put without an epoch, because that of the registration is not known yet.
    epoch = message.epoch or entry.mod_revision
    return LastIncarnation(message.incarnation, message.directory_id, epoch, message.renewals)


def _restored_to(value: Restored) -> Message:
    return pb.Restored(format=FORMAT, count=value.count, seq=value.seq)


def _restored_from(key: Key, message: pb.Restored, entry: KeyValue) -> Restored:
    return Restored(message.count, message.seq, mod_revision=entry.mod_revision)


def _terms_to(value: tuple[Term, ...]) -> Message:
    return pb.Terms(format=FORMAT, terms=[pb.Term(uuid=term.uuid, first_seq=term.first_seq) for term in value])


def _terms_from(key: Key, message: pb.Terms, entry: KeyValue) -> tuple[Term, ...]:
    return tuple(Term(term.uuid, term.first_seq) for term in message.terms)


def _login_secret_to(value: LoginSecret) -> Message:
    return pb.LoginSecret(format=FORMAT, secret=value.value)


def _login_secret_from(key: Key, message: pb.LoginSecret, entry: KeyValue) -> LoginSecret:
    return LoginSecret(message.secret)


def _acl_to(value: Acl) -> Message:
    return pb.Acl(format=FORMAT, **fields_of(value))


def _acl_from(key: Key, message: pb.Acl, entry: KeyValue) -> Acl:
    return acl_of(message)


def _scram_to(value: ScramCredential) -> Message:
    return pb.ScramCredential(
        format=FORMAT,
        iterations=value.iterations,
        salt=value.salt,
        stored_key=value.stored_key,
        server_key=value.server_key,
    )


def _scram_from(key: Key, message: pb.ScramCredential, entry: KeyValue) -> ScramCredential:
    return ScramCredential(key[2], message.iterations, message.salt, message.stored_key, message.server_key)


def _coordinator_to(value: Coordinator) -> Message:
    return pb.Coordinator(format=FORMAT, address=value.address, incarnation=value.incarnation)


def _coordinator_from(key: Key, message: pb.Coordinator, entry: KeyValue) -> Coordinator:
    return Coordinator(
        kind=key[1],
        id=key[2],
        epoch=entry.create_revision,
        address=message.address,
        incarnation=message.incarnation,
        mod_revision=entry.mod_revision,
    )


def _shard_to(value: Shard) -> Message:
    return pb.Shard(format=FORMAT, owner=value.owner, incarnation=value.incarnation, epoch=value.epoch)


def _shard_from(key: Key, message: pb.Shard, entry: KeyValue) -> Shard:
    return Shard(message.owner, message.incarnation, message.epoch, mod_revision=entry.mod_revision)


def _controller_to(value: Controller) -> Message:
    return pb.Controller(format=FORMAT, id=value.id, address=value.address)


def _controller_from(key: Key, message: pb.Controller, entry: KeyValue) -> Controller:
    return Controller(id=message.id, address=message.address, epoch=entry.create_revision)


def _configs_to(value: ResourceConfigs) -> Message:
    return pb.Configs(format=FORMAT, configs=dict(value.values))


def _configs_from(key: Key, message: pb.Configs, entry: KeyValue) -> ResourceConfigs:
    return ResourceConfigs(values=dict(message.configs), mod_revision=entry.mod_revision)


def _producer_ids_to(value: ProducerIds) -> Message:
    return pb.ProducerIds(format=FORMAT, next=value.next)


def _producer_ids_from(key: Key, message: pb.ProducerIds, entry: KeyValue) -> ProducerIds:
    return ProducerIds(next=message.next, mod_revision=entry.mod_revision)


def _broker_ids_to(value: BrokerIds) -> Message:
    return pb.BrokerIds(format=FORMAT, next=value.next, by_directory=dict(value.by_directory))


def _broker_ids_from(key: Key, message: pb.BrokerIds, entry: KeyValue) -> BrokerIds:
    return BrokerIds(next=message.next, by_directory=dict(message.by_directory), mod_revision=entry.mod_revision)


def _seq_to(value: int) -> Message:
    return pb.Sequence(format=FORMAT, value=value)


def _seq_from(key: Key, message: pb.Sequence, entry: KeyValue) -> int:
    return message.value


_KINDS: Final = {
    "topic": _Kind(pb.Topic, _topic_to, _topic_from),
    "partition": _Kind(pb.Partition, _partition_to, _partition_from),
    "broker": _Kind(pb.Broker, _broker_to, _broker_from),
    "last_life": _Kind(pb.LastLife, _last_incarnation_to, _last_incarnation_from),
    "restored": _Kind(pb.Restored, _restored_to, _restored_from),
    "terms": _Kind(pb.Terms, _terms_to, _terms_from),
    "login_secret": _Kind(pb.LoginSecret, _login_secret_to, _login_secret_from),
    "acl": _Kind(pb.Acl, _acl_to, _acl_from),
    "scram": _Kind(pb.ScramCredential, _scram_to, _scram_from),
    "coordinator": _Kind(pb.Coordinator, _coordinator_to, _coordinator_from),
    "shard": _Kind(pb.Shard, _shard_to, _shard_from),
    "controller": _Kind(pb.Controller, _controller_to, _controller_from),
    "configs": _Kind(pb.Configs, _configs_to, _configs_from),
    "producer_ids": _Kind(pb.ProducerIds, _producer_ids_to, _producer_ids_from),
    "broker_ids": _Kind(pb.BrokerIds, _broker_ids_to, _broker_ids_from),
    "seq": _Kind(pb.Sequence, _seq_to, _seq_from),
}
