"""Which versions of Kafka's APIs belong to the version of a producer's transactions (KIP-890).

From some version of an API on, a broker concludes from a request that the producer's transactions have version 2. A
client may use such a version only if the cluster has finalized 2 as its feature `transaction.version`. All requests of
a transaction have to agree. A cluster may be upgraded while a transaction is open. So the producer gets the version
together with its epoch, and each of its requests carries that version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import Message

from ottla.client.kafka.apis import AnyApi
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2
from ottla_proto.client_pb2 import ProduceRequest
from ottla_proto.group_pb2 import CommitOffsetsRequest
from ottla_proto.txn_pb2 import EndTxnRequest

_FEATURE: Final = "transaction.version"


def transaction_version(features: Mapping[str, int]) -> int:
    """Return the version of transactions that a cluster with these finalized features has."""
    return TRANSACTIONS_V2 if features.get(_FEATURE, 0) >= TRANSACTIONS_V2 else TRANSACTIONS_V1


def api_for(api: AnyApi, request: Message) -> AnyApi:
    """Return the API with those versions that suit the transactions of the request's producer."""
    match request:
        case ProduceRequest(transaction_version=version) | EndTxnRequest(transaction_version=version):
            pass
        case CommitOffsetsRequest(transaction=transaction):
            version = transaction.transaction_version
        case _:
            return api
    return api.before(api.transactions_v2_from) if version == TRANSACTIONS_V1 else api
