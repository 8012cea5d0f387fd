"""Logs each change that a client has requested: who the client is, and what the request names.

The client's broker has decided that it may, and says who it is (docs/adr/0036). Changes of services, such as those of
in-sync replicas, are too many to log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final

from ottla_core.event_loop.slices import sliced
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.server import RpcHandler
from ottla_proto.contracts import Method

_log = logging.getLogger(__name__)

_MOST_NAMED: Final = 10
_SHOWN_CHARACTERS: Final = 80

_Names = Callable[[Any], Iterable[str]]

_NAMES: Final[Mapping[str, _Names]] = {
    "CreateTopics": lambda request: (topic.name for topic in request.topics),
    "DeleteTopics": lambda request: [*request.names, *(topic_id.hex() for topic_id in request.topic_ids)],
    "CreatePartitions": lambda request: (topic.name for topic in request.topics),
    "AlterConfigs": lambda request: (altered.resource.name for altered in request.resources),
    "ElectLeaders": lambda request: (f"{p.topic}-{p.partition}" for p in request.partitions),
    "DeclareRestored": lambda request: (),
    "CreateAcls": lambda request: (f"{acl.principal} on {acl.name}" for acl in request.acls),
    "DeleteAcls": lambda request: (f"{each.principal} on {each.name}" for each in request.filters),
    "AlterScramCredentials": lambda request: (change.user for change in request.changes),
}
"""This is what a request names, for each method of the controller that a broker calls to change something for a
client."""


def recorded(method: Method[Any, Any], handler: RpcHandler) -> RpcHandler:
    """Return the handler of a method, which also logs the changes that it has made for others."""
    names_of = _NAMES.get(method.name)
    if names_of is None:
        return handler

    async def handle_and_log(request: Any, context: RequestContext) -> Any:
        response = await handler(request, context)
        if not getattr(request, "validate_only", False):
            _log.info("%s for %s: %s", method.name, _shown(context.principal), await _listed(names_of(request)))
        return response

    return handle_and_log


async def _listed(names: Iterable[str]) -> str:
    rest = iter(names)
    listed = ", ".join(map(_shown, islice(rest, _MOST_NAMED)))
    more = len(await sliced(lambda _: None, rest))
    return f"{listed} and {more} others" if more else listed or "all"


def _shown(text: str) -> str:
    """Return the text without line ends, which would let a client write lines of its own."""
    return text[:_SHOWN_CHARACTERS].encode("unicode_escape").decode()
