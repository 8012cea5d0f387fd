"""A story opens a consumer with these options, whichever client it is of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple


class Opening(NamedTuple):
    """The consumer reads `partitions`. If they are None, it joins the group and reads what it is assigned."""

    partitions: Sequence[int] | None = None
    reset: Literal["earliest", "latest", "none"] = "earliest"
    isolation: Literal["read_committed", "read_uncommitted", "default"] = "read_committed"
    auto_commit: bool = False
    assignor: Literal["range", "cooperative-sticky"] = "range"
    commits_when_revoked: bool = False
    max_poll_interval_ms: int = 300_000


METADATA_MS = 500
HEARTBEAT_MS = 500
LIMIT_MS = 20_000
"""How long `read` and `reach` poll at most."""
NEVER_MS = 3_600_000
"""The interval of auto commits: stories commit when they close, or when the group rebalances."""
