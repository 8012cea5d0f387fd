"""The SDK with Apache Kafka's clusters: what their brokers do not tell, or tell in another way."""

from __future__ import annotations

import socket

from tests.regressions.injection import constant, instead_of
from tests.regressions.story import Story


def _unmeasured(original, cluster, group, committed, *, timeout):
    """Raise what the coordinator has said."""
    from ottla.errors import ErrorCode, error_from_code

    raise error_from_code(ErrorCode.UNSUPPORTED_VERSION, "the broker does not serve Group.Lag")


def _before_it_is_hidden(original, self, challenge):
    from ottla.client.kafka.sasl import oauthbearer

    return original(self, challenge[: oauthbearer._MOST_CHARS])


def _as_long_as_it_is_known(original, names, topic_id):
    class Name(str):
        def __eq__(self, other):
            return any(names.id_of(other)) and super().__eq__(other)

        __hash__ = str.__hash__

    return Name(original(names, topic_id))


def _by_its_owner_alone(original, self, hanging, deadline):
    self._write_by_leader = self._write_by_owner
    original(self, hanging, deadline)


def _as_if_it_had_none_before(original, self, topic_id, name):
    self._former.clear()
    return original(self, topic_id, name)


def _as_if_it_went_on(original, consumer, *arguments):
    consumer.finished = False
    return original(consumer, *arguments)


def _as_any_failure(original, self, partition, error):
    from ottla.machines.requests import Reported

    self.transactions.fail(error)
    return Reported()


class _NeverRaised(Exception):  # noqa: N818 - it is no error
    """A test whether an error is of this class is always false."""


def _at_the_first_address(original, place):
    return socket.create_connection(place, timeout=10.0)


STORIES = (
    Story(
        "spark-believes-the-first-broker",
        "A Spark task or a restarted query took its topic for recreated if the first broker that it asked lagged",
        constant("pyspark_ottla.reading:UNKNOWN_TOPIC_GRACE_S", 0.0),
        constant("pyspark_ottla.cluster:UNKNOWN_TOPIC_GRACE_S", -1.0),
    ),
    Story(
        "spark-skips-a-range-after-an-election",
        "After an unclean election, a Spark task with failOnDataLoss=false skipped records that exist",
        constant("pyspark_ottla.reading:TruncationError", _NeverRaised),
    ),
    Story(
        "group-of-the-new-protocol-is-missing",
        "`ottla group rm --if-exists` took a group with Kafka's new protocol for missing, and did not delete it",
        instead_of("ottla.admin.groups:_is_of_other_type", lambda original, error, type_: False),
    ),
    Story(
        "denied-topic-repeats-rounds-for-ever",
        "With Kafka before 4.0, an App repeated a round for ever if it was not allowed to write to a topic",
        instead_of("ottla.machines.transactional_accumulator:TransactionalAccumulator.refuse", _as_any_failure),
    ),
    Story(
        "commit-into-a-recreated-topic",
        "With Kafka before 4.1, offsets of a deleted topic were committed in the topic that had its name by then",
        constant("ottla.client.committed_offsets:_Commit._is_replaced", lambda self, at, offset: False),
    ),
    Story(
        "expired-id-ends-an-app",
        "An exactly-once App ended instead of repeating a round if the coordinator had forgotten its transactional id",
        constant("ottla.producer.transaction_manager:wants_new_epoch", lambda code: False),
    ),
    Story(
        "consume-before-an-open-transaction",
        "`ottla consume` failed at once as if no record arrived, on every topic with an open transaction",
        instead_of("ottla_cli.commands.consume:read", _as_if_it_went_on),
    ),
    Story(
        "deleted-topic-stalls-an-app",
        "With Kafka before 4.1, a deleted topic stopped an App's other topics once max_in_flight records were handled",
        instead_of("ottla.machines.progress:RecordsInFlight.leave", lambda original, self, offsets: None),
    ),
    Story(
        "live-transaction-called-hanging",
        "With Apache Kafka, a live transaction that no coordinator listed was called hanging and could be aborted",
        instead_of("ottla.admin.transactions:_or_live", lambda original, found, oldest: found),
    ),
    Story(
        "former-topic-that-came-back",
        "A broker that lagged brought a topic's former id back: consumers reset their positions, and later once more",
        instead_of("ottla.client.kafka.topic_names:TopicNames.learn", _as_if_it_had_none_before),
    ),
    Story(
        "commit-that-a-late-coordinator-refused",
        "A commit failed for good because the group's coordinator did not know a topic yet that all brokers had",
        instead_of("ottla.consumer.group.commits:Commits._gone", lambda original, self, offsets, missing: set(offsets)),
    ),
    Story(
        "old-messages-that-were-skipped",
        "Messages in the format before Kafka 0.11 were read as a batch, and the consumer skipped them silently",
        instead_of(
            "ottla.machines.position:iter_headers",
            lambda original, records: ((at, header._replace(magic=2)) for at, header in original(records)),
        ),
    ),
    Story(
        "first-address-that-drops-packets",
        "A broker whose host name has several addresses was never reached if the first one dropped packets",
        instead_of("ottla.client.kafka.sockets.line:_dialled", _at_the_first_address),
    ),
    Story(
        "metadata-for-a-deleted-topic",
        "A deleted topic made a client, such as a mirror, request the metadata of all its topics four times a second",
        constant("ottla.client.metadata_updater:_MISSING_AGE_S", 0.02),
    ),
    Story(
        "cut-token-in-an-error",
        "An OAUTHBEARER token that a broker repeated was not hidden if it crossed the end of the shown text",
        instead_of("ottla.client.kafka.sasl.oauthbearer:OAuthBearerConversation.answer", _before_it_is_hidden),
    ),
    Story(
        "produced-to-a-name-that-was-forgotten",
        "With Kafka before 4.0, a broker that did not know a topic yet made the client send records in flight again",
        instead_of("ottla.client.kafka.topic_names:TopicNames.name_of", _as_long_as_it_is_known),
    ),
    Story(
        "growth-that-was-reported-as-failed",
        "`topics.add_partitions` raised an error for the partitions that its own request, repeated, had added",
        instead_of("ottla.admin.topics:Topics._has_grown", lambda original, self, name, total, error, deadline: False),
    ),
    Story(
        "hanging-transaction-of-a-foreign-group",
        "A hanging transaction in Apache Kafka's __consumer_offsets could not be aborted: only ottla has its owners",
        instead_of("ottla.admin.transactions:Transactions._write_marker", _by_its_owner_alone),
    ),
    Story(
        "no-lag-with-apache-kafka",
        "`ottla group show` and `admin.groups.lag` failed with Apache Kafka, though its offsets tell the lag",
        instead_of("ottla.admin.measured_lag:measured_lag", _unmeasured),
    ),
    Story(
        "a-code-and-nothing-else",
        "Apache Kafka's brokers send many codes without words: the error was `MESSAGE_TOO_LARGE (MESSAGE_TOO_LARGE)`, "
        "and did not name the partition",
        constant("ottla.errors:_MEANINGS", {}),
    ),
    Story(
        "committed-offsets-in-no-order",
        "With Apache Kafka `admin.groups.committed` returned partitions in no order, and commands showed them so",
        instead_of(
            "ottla.admin.groups:by_partition",
            lambda original, offsets: {at: each.offset for at, each in offsets.items()},
        ),
    ),
    Story(
        "doctor-takes-any-broker-of-apache-kafka-for-a-swapped-one",
        "With several brokers of Apache Kafka, `ottla doctor` reported that their ports were swapped",
        constant("ottla_cli.commands.doctor:reports_listeners", lambda info: True),
    ),
    Story(
        "a-broker-that-refers-to-the-bootstrap-addresses-ends-the-client",
        "A broker or proxy that answered REBOOTSTRAP_REQUIRED was a fatal error: the client asked no other address",
        constant("ottla.client.cluster:_BOOTSTRAP_AGAIN", None),
    ),
)
