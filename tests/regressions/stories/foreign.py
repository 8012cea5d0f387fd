"""The SDK with Apache Kafka's clusters: what their brokers do not tell, or tell in another way."""

from __future__ import annotations

from tests.regressions.injection import constant, instead_of
from tests.regressions.story import Story


def _unmeasured(original, cluster, group, committed, *, timeout):
    """Raise what the coordinator has said."""
    from ottla.errors import ErrorCode, error_from_code

    raise error_from_code(ErrorCode.UNSUPPORTED_VERSION, "the broker does not serve Group.Lag")


STORIES = (
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
        instead_of("ottla.admin.groups:by_partition", lambda original, offsets: dict(offsets)),
    ),
    Story(
        "doctor-takes-any-broker-of-apache-kafka-for-a-swapped-one",
        "With several brokers of Apache Kafka, `ottla doctor` reported that their ports were swapped",
        constant("ottla_cli.commands.doctor:reports_listeners", lambda info: True),
    ),
)
