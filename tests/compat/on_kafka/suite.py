"""The tests of the suite, and those of them that a kind of cluster can't run, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tests.compat.on_kafka.kind import Kind

FILES: Final = (
    "test_app.py",
    "test_app_exactly_once.py",
    "test_cli.py",
    "test_exactly_once_example.py",
    "test_gevent.py",
    "test_group_admin.py",
    "test_sdk.py",
    "test_sdk_admin.py",
    "test_sdk_examples.py",
    "test_sdk_failover.py",
    "test_sdk_fakes_and_real.py",
    "test_sdk_forks.py",
    "test_sdk_groups.py",
    "test_sdk_large_batches.py",
    "test_sdk_transaction_kills.py",
    "test_sdk_transactions.py",
    "test_table.py",
    "test_transaction_admin.py",
)
SHORT: Final = (
    "test_app.py::test_keys_go_side_by_side_each_in_its_order_and_a_restart_goes_on",
    "test_sdk_admin.py::test_configs_of_a_topic",
    "test_sdk_groups.py::test_cooperative_members_give_up_only_what_moves",
    "test_sdk_transactions.py::test_what_is_committed_is_read_and_what_is_aborted_is_not",
    "test_table.py::test_the_same_for_asyncio",
)
"""Cells that show in a minute that the rest would run."""

_NO_STORY = "Kafka's coordinators keep no history of their groups"
_NO_SHARDS = "Kafka's coordinators do not tell what they own, and how they load it"
_NO_HISTORY = "Kafka's coordinators keep no history of their transactions"
_NO_LOSS = "it lets a transaction hang inside ottla's services"
_TWO_PHASES = "Kafka has no two-phase commit unless unstable versions are enabled"
_STATIC = "Kafka reads this config only when it starts"
_PRIVATE = "it makes a call that only ottla's brokers serve"
ONLY_OTTLA: Final[Mapping[str, str]] = MappingProxyType(
    {
        "test_cli.py::test_a_closed_cluster_does_not_keep_a_reader_waiting": "the clusters of a run go on after a test",
        "test_cli.py::test_a_config_without_effect_is_told_wherever_it_is_given": "each config has its effect in Kafka",
        "test_cli.py::test_configs_of_topics_brokers_and_the_cluster": _STATIC,
        "test_cli.py::test_why_a_member_left_is_explained": _NO_STORY,
        "test_group_admin.py::test_a_leader_that_sees_new_partitions_is_told_as_the_cause": _NO_STORY,
        "test_group_admin.py::test_a_groups_story_has_who_was_kicked_and_why": _NO_STORY,
        "test_group_admin.py::test_a_member_that_falls_silent_is_evicted_and_its_partitions_move": _NO_STORY,
        "test_group_admin.py::test_groups_are_listed_and_described_wherever_they_are": _NO_SHARDS,
        "test_group_admin.py::test_lag_is_exact_in_seconds": (
            "Kafka's coordinators do not tell how old an unread record is"
        ),
        "test_group_admin.py::test_what_is_set_for_groups_holds_from_then_on": _STATIC,
        "test_sdk.py::test_the_error_of_a_record_that_is_too_large_has_the_limit": (
            "Kafka's error does not tell the limit"
        ),
        "test_sdk_admin.py::test_batches_are_imported_at_their_offsets": _PRIVATE,
        "test_sdk_admin.py::test_calls_between_services_are_not_for_clients": _PRIVATE,
        "test_sdk_admin.py::test_transactional_ids_are_prepared_and_forgotten": _PRIVATE,
        "test_sdk_admin.py::test_configs_of_a_broker_and_of_all": _STATIC,
        "test_sdk_admin.py::test_each_broker_describes_a_config_as_soon_as_it_is_set": (
            "each of Kafka's brokers describes what it has heard of so far"
        ),
        "test_sdk_admin.py::test_every_shard_has_an_owner": _NO_SHARDS,
        "test_sdk_admin.py::test_a_groups_story": _NO_STORY,
        "test_sdk_groups.py::test_the_group_knows_why_a_member_left": _NO_STORY,
        "test_sdk_large_batches.py::test_a_topic_with_smaller_segments_gets_every_record": (
            "Kafka's segments have at least 1 MiB"
        ),
        "test_sdk_transaction_kills.py::test_each_transaction_is_read_whole_or_not_at_all_whatever_is_killed": (
            "it kills ottla's services in turn; tests/compat/test_sdk_kafka_failover.py kills Kafka's brokers"
        ),
        "test_sdk_transactions.py::test_a_transaction_has_the_version_of_its_cluster": (
            "Kafka's DescribeTransactions does not tell the version"
        ),
        "test_transaction_admin.py::test_a_leader_tells_of_a_transaction_that_should_long_have_ended": (
            "Kafka's DescribeLogDirs does not tell of late transactions"
        ),
        "test_transaction_admin.py::test_a_prepared_transaction_is_aborted_by_its_id": _TWO_PHASES,
        "test_transaction_admin.py::test_a_transaction_that_hangs_is_found_and_aborted": _NO_LOSS,
        "test_transaction_admin.py::test_an_open_transaction_is_seen_from_both_sides": _NO_HISTORY,
        "test_transaction_admin.py::test_an_open_transaction_is_seen_from_both_sides_and_aborted": _NO_HISTORY,
        "test_transaction_admin.py::test_events_and_the_error_of_a_fenced_producer_name_the_client_behind_the_broker": (
            _NO_HISTORY
        ),
        "test_transaction_admin.py::test_offsets_of_a_transaction_that_hangs_are_aborted_by_the_groups_coordinator": (
            _NO_LOSS
        ),
        "test_transaction_admin.py::test_the_command_line_leads_from_who_waits_to_who_is_aborted": _NO_HISTORY,
        "test_transaction_admin.py::test_what_hangs_is_found_and_aborted": _NO_LOSS,
        "test_transaction_admin.py::test_what_was_prepared_is_ended_by_whom_its_producer_has_named_it_to": _TWO_PHASES,
    }
)
"""Tests of what Apache Kafka does not have."""
_CONFIGS_LATER = "Kafka 3.9 may describe a topic's configs a moment later than the topic"
BEFORE_4: Final[Mapping[str, str]] = MappingProxyType(
    {
        "test_group_admin.py::test_the_command_line_has_it_all": (
            "Kafka before 4.0 deletes an empty group together with its last offset"
        ),
        "test_sdk.py::test_a_record_the_broker_refuses_fails_with_kafkas_error": (
            "brokers of Kafka 3.9 may apply a changed config a moment later"
        ),
        "test_sdk.py::test_configs_of_topics_and_of_the_cluster": _CONFIGS_LATER,
        "test_sdk_admin.py::test_configs_of_a_topic": _CONFIGS_LATER,
        "test_sdk_transactions.py::test_a_transaction_that_times_out_is_aborted_and_the_producer_goes_on": (
            "Kafka before 4.0 fences a producer whose transaction has timed out"
        ),
        "test_transaction_admin.py::test_a_listing_is_of_what_it_names": (
            "Kafka before 4.1 can't list transactional ids by a pattern"
        ),
    }
)
"""Tests of what Apache Kafka 4 has and earlier versions do not have."""
WITHOUT_LOGIN: Final[Mapping[str, str]] = MappingProxyType(
    {"test_sdk.py::test_an_http_port_is_named": "with TLS, the error is that the port does not speak it"}
)
"""Tests of clients that do not log in."""


def why_not(test: str, kind: Kind, transaction_version: int | None = None) -> str | None:
    """Return why this kind of cluster can't run the test, which is named `file::function`. None: it can."""
    if transaction_version is not None and (transaction_version == 2) != (kind.transaction_version == 2):
        return f"this cluster has finalized version {kind.transaction_version} of transactions"
    before_4 = None if kind.version.startswith("4") else BEFORE_4.get(test)
    return ONLY_OTTLA.get(test) or before_4 or (WITHOUT_LOGIN.get(test) if kind.logs_in else None)
