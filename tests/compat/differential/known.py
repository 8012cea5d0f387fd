"""What a client experiences otherwise than with Apache Kafka, and why that stays so."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tests.compat.differential.stories import rules

_TELLS_MORE: Final = "Kafka leaves the positions out beside the error; clients read neither"
_OTHER_GROUPS: Final = "its groups are share groups or streams groups, which ottla does not have"
_ONE_LEVEL: Final = "a release of ottla serves one level of each feature"
_BOTH_MECHANISMS: Final = (
    "a user may get both mechanisms in one request, which is all carried out or not at all; "
    "so one command of kafka-configs can set them"
)
_DEFAULTS_SYNONYM: Final = "the broker's config from which the default comes is named, too"
_METADATA: Final = "ottla keeps its metadata in etcd: there is no log of metadata that has a version"

KNOWN: Final = MappingProxyType(
    {
        **rules.KNOWN,
        "offsets: commit: an unknown group with a generation": "an unknown group has no such generation; "
        "consumers join anew after both errors",
        "transaction coordinator: offsets: no group": "a group without a name is not added: it can't commit",
        "sequences: one before the last five again": "the batch is in the log, and DUPLICATE_SEQUENCE_NUMBER says so: "
        "producers count it as delivered, where OUT_OF_ORDER_SEQUENCE_NUMBER ends them",
        "batches: cut off": "CORRUPT_MESSAGE has producers send it again, which may help a batch that was cut",
        "batches: two batches": "they are taken: nothing in them is lost or in another order",
        "batches: transactional without an id": "INVALID_REQUEST says what is wrong; no client of Kafka's sends it",
        "reads: fetch: beyond the end": _TELLS_MORE,
        "reads: fetch: below 0": _TELLS_MORE,
        "reads: list: the largest time": "older versions can name it, too, and get the answer",
        "reads: list: the earliest local": "older versions can name it, too, and get the answer",
        "topics: describe configs: a bad name": "no topic has such a name, and the topic is unknown",
        "credentials: two mechanisms of one user": _BOTH_MECHANISMS,
        "credentials: one mechanism deleted and another stored": _BOTH_MECHANISMS,
        "credentials: two mechanisms deleted": _BOTH_MECHANISMS,
        "credentials: another user beside one that is named twice": _BOTH_MECHANISMS,
        "synonyms: topic: retention.ms": _DEFAULTS_SYNONYM,
        "synonyms: topic: segment.ms": _DEFAULTS_SYNONYM,
        "synonyms: topic: flush.ms": _DEFAULTS_SYNONYM,
        "auto-creation: a topic that does not exist": "the response waits until the topic is there, "
        "so a client need not ask again",
        "consumer group beside classic members: a classic leave into a consumer group": "a member of the consumer "
        "protocol leaves by its own heartbeat alone",
        "consumer group commits: fetch: nobody": "no member id with the epoch -1 is nobody's, as in older versions",
        "protocol: feature share.version": _OTHER_GROUPS,
        "protocol: feature streams.version": _OTHER_GROUPS,
        "protocol: feature kraft.version": _METADATA,
        "protocol: feature metadata.version": _METADATA,
        "protocol: AddPartitionsToTxn": "versions 4 and 5 are of brokers, which have a contract of their own",
        "protocol: APIs beside those of ottla": "they are of what ottla does not have: docs/kafka-apis.md",
        "protocol: update: transaction.version to 1": _ONE_LEVEL,
        "protocol: update: eligible.leader.replicas.version to 0": _ONE_LEVEL,
        "protocol: update: group.version to 0": _ONE_LEVEL,
    }
)
"""A reason by `<story>: <fact>`. What is not here must not differ, and what is here must."""
