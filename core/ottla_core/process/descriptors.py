"""How many files and connections a process may have open at a time."""

from __future__ import annotations

import logging
import resource
from typing import Final

LOGS: Final = 4_096
"""Open files of logs that are in use at a time; more of them, and files are closed and opened again."""
ENOUGH: Final = 2 * LOGS
"""Leaves room for as many connections as logs."""

_MOST: Final = 1 << 20
_log = logging.getLogger(__name__)


def raise_limit() -> int:
    """Allow this process what the system lets it have, as servers do; how many that is. Warns where it is few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    limit = soft if soft == resource.RLIM_INFINITY else max(soft, most)
    if limit != soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    if limit != resource.RLIM_INFINITY and limit < ENOUGH:
        _log.warning(
            "this process may open only %d files and connections, at most half of them for logs, which is too few for "
            "thousands of partitions or clients. Raise the limit to %d (ulimit -n %d, or LimitNOFILE= in the service's "
            "systemd unit)",
            limit,
            ENOUGH,
            ENOUGH,
        )
    return limit


def for_logs() -> int:
    """How many of them may be files of logs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LOGS if soft == resource.RLIM_INFINITY else min(LOGS, soft // 2)
