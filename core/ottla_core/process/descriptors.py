"""Sets how many files and connections a process may have open at a time."""

from __future__ import annotations

import logging
import resource
from typing import Final

LOGS: Final = 4_096
"""How many files of logs in use may be open at a time. With more of them, files are closed and opened again."""
ENOUGH: Final = 2 * LOGS
"""This leaves room for as many connections as logs."""

_MOST: Final = 1 << 20
_log = logging.getLogger(__name__)


def raise_limit() -> int:
    """Raise the limit to what the system allows this process, as servers do, and return it. It warns if that is few."""
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
    """Return how many of them may be files of logs."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LOGS if soft == resource.RLIM_INFINITY else min(LOGS, soft // 2)
