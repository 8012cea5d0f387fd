"""Checks that the responses to a listing of groups or transactions cover every shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.errors import ErrorCode, error_from_code
from ottla_core.plural import counted


def check_all_listed(kind: str, total: int, responses: Sequence[Any]) -> None:
    """Raise COORDINATOR_LOAD_IN_PROGRESS if no response covers one of the `total` shards."""
    missing = set(range(total)).difference(*(response.shards.numbers for response in responses))
    if missing:
        raise error_from_code(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            f"no {kind}-coordinator can list {counted(len(missing), 'shard')} yet",
            hint="try again when a coordinator has loaded the shards; `ottla doctor` shows the progress",
        )
