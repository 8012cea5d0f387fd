"""The exchanges about prepared transactions, which only coordinators of ottla have."""

from __future__ import annotations

from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.private_call import private_call
from ottla.machines.transaction import ProducerEpoch
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import TxnProducer
from ottla_proto.contracts import Txn


def preparation(transactional_id: str, producer: ProducerEpoch) -> Exchange[None]:
    """Return the exchange that prepares the open transaction of a producer."""
    request = pb.PrepareRequest(transactional_id=transactional_id, producer=_wire(producer))
    return private_call(Txn.PREPARE, request, lambda _: None)


def forgetting(transactional_id: str, producer: ProducerEpoch) -> Exchange[None]:
    """Return the exchange that deletes an id, whose last transaction is over, from its coordinator's log."""
    request = pb.ForgetRequest(transactional_id=transactional_id, producer=_wire(producer))
    return private_call(Txn.FORGET, request, lambda _: None)


def _wire(producer: ProducerEpoch) -> TxnProducer:
    return TxnProducer(id=producer.producer_id, epoch=producer.epoch)
