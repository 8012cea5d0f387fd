"""The tests of the suite, and those of them that a kind of cluster can't run, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

ONLY_OTTLA: Final[Mapping[str, str]] = MappingProxyType({})
"""Tests of what Apache Kafka does not have."""
WITHOUT_LOGIN: Final[Mapping[str, str]] = MappingProxyType({})
"""Tests of clients that do not log in."""


def why_not(test: str, kind: Kind, transaction_version: int | None = None) -> str | None:
    """Return why this kind of cluster can't run the test, which is named `file::function`. None: it can."""
    if transaction_version is not None and (transaction_version == 2) != (kind.transaction_version == 2):
        return f"this cluster has finalized version {kind.transaction_version} of transactions"
    return ONLY_OTTLA.get(test) or (WITHOUT_LOGIN.get(test) if kind.logs_in else None)


def strangers(tests: Iterable[str]) -> list[str]:
    """Return what the tables name and no collected test is called. Only files that were collected count."""
    tests = set(tests)
    files = {test.partition("::")[0] for test in tests}
    return [name for name in (*ONLY_OTTLA, *WITHOUT_LOGIN) if name.partition("::")[0] in files and name not in tests]
