"""The fetch sessions of a consumer, one for each target.

Each fetch sends only what is new (KIP-227).

* A partition is requested once, until the response has records, an error or the name of another replica. The cost of a
  fetch depends on what has happened, not on the number of requested partitions. While any partition is requested, one
  fetch is always in flight.
* The requested partitions may change until a response arrives; a response covers the partitions named up to its fetch
  (`number`).
* A failed fetch ends its session; everything is requested again in a new session.
* A broker without space for a session responds to each fetch on its own; partitions missing in the response are
  requested again.

A session takes one fetch at a time (KIP-227), and a broker may hold that fetch for
`fetch_max_wait` while nothing arrives. A partition that is wanted meanwhile does not wait. It is requested beside the
session, by an *express* fetch, which belongs to no session. A broker holds such a fetch only briefly. While it is open
and not overdue, nothing else begins at its target, so the session takes these partitions over when its own fetch has
returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final

from ottla.machines.metadata import Route
from ottla.machines.position import Fetch, FetchPart, FetchSession, PartitionData, Position, Target
from ottla_core.model import PartitionId

_NOTHING: Final = PartitionData()
_NO_SESSION: Final = 0
_LONGEST_EXPRESS_S: Final = 0.02
"""How long a broker may hold an express fetch. The session's own next fetch may have to wait for it that long."""


class FetchSessions:
    """The fetch sessions of one consumer, one for each target that it fetches from."""

    def __init__(self) -> None:
        self.open: Final[dict[Fetch, None]] = {}
        self._by_target: Final[dict[Target, FetchSession]] = {}
        self._express: Final[dict[Target, Fetch]] = {}
        self._express_since: Final[dict[Target, float]] = {}
        """Since when express fetches to a target have brought nothing."""
        self._open_at: Final[dict[str, int]] = {}
        self._ids: Final = count(1)

    def open_at(self, address: str) -> int:
        """Return the number of fetches in flight to `target`."""
        return self._open_at.get(address, 0)

    def may_begin(self, target: Target) -> bool:
        """Return whether another fetch to `target` may begin now.

        Beside an overdue express fetch, only the session's own fetch may. Another express fetch would go over the same
        connection, and wait behind the overdue one.
        """
        express = self._express.get(target)
        if express is None:
            return True
        session = self._by_target.get(target)
        return express.is_overdue and (session is None or not session.open)

    def begin(self, target: Target, partition_bytes: int, now: float) -> Fetch:
        """Begin the next fetch to `target`, which is empty; `add` adds partitions to it."""
        session = self._by_target.get(target)
        if session is None:
            session = self._by_target[target] = FetchSession(target, next(self._ids))
        if session.open:
            fetch = self._express[target] = self._begin(FetchSession(target, _NO_SESSION), partition_bytes, now)
            # The broker holds it for as long as nothing has come so far, so a partition without records costs few
            # fetches.
            quiet_s = now - self._express_since.setdefault(target, now)
            fetch.max_wait_s = min(quiet_s, _LONGEST_EXPRESS_S)
            return fetch
        self._express_since.pop(target, None)
        return self._begin(session, partition_bytes, now)

    def _begin(self, session: FetchSession, partition_bytes: int, now: float) -> Fetch:
        session.number += 1
        session.open += 1
        fetch = Fetch(session, partition_bytes, now, session.number, forgotten=session.forgotten)
        session.forgotten = []
        self.open[fetch] = None
        address = session.target.address
        self._open_at[address] = self.open_at(address) + 1
        return fetch

    def add(self, fetch: Fetch, position: Position, route: Route) -> None:
        """Add a partition to a fetch; the partition is in flight from now on."""
        part = FetchPart(position, route, position.fetch_offset, position.version, fetch)
        fetch.parts.append(part)
        fetch.session.parts[route.partition_id] = part
        position.in_flight, position.route = part, route

    @property
    def waiting(self) -> list[Target]:
        """Return the targets that need a fetch, because partitions were requested or withdrawn and no fetch is in
        flight."""
        sessions = self._by_target.items()
        return [t for t, s in sessions if (s.parts or s.forgotten) and not s.open and self.may_begin(t)]

    @property
    def parts(self) -> list[FetchPart]:
        """Return all parts in flight, at all targets."""
        sessions = [*self._by_target.values(), *(fetch.session for fetch in self._express.values())]
        return [part for session in sessions for part in session.parts.values()]

    def withdraw(self, part: FetchPart) -> None:
        """Stop requesting a partition, and ignore any later response for it."""
        part.position.in_flight = None
        session, partition_id = part.fetch.session, part.route.partition_id
        if session.parts.get(partition_id) is part:
            del session.parts[partition_id]
            session.forgotten.append(partition_id)

    def on_response(
        self, fetch: Fetch, responses: Mapping[PartitionId, PartitionData], *, in_session: bool
    ) -> Iterator[tuple[FetchPart, PartitionData]]:
        """Yield the parts that the response covers. Parts that are no longer requested leave the flight."""
        self._on_done(fetch)
        parts = fetch.session.parts
        if any(response.records for response in responses.values()):
            self._express_since.pop(fetch.target, None)
        if not in_session:
            self._end(fetch.session)
            for part in list(parts.values()):
                if part.fetch is fetch or part.fetch not in self.open:  # else its own response comes
                    yield from self._respond(part, responses.get(part.route.partition_id, _NOTHING), answered=True)
            return
        for partition_id, response in responses.items():
            named = parts.get(partition_id)
            if named is not None and named.fetch.number <= fetch.number:
                yield from self._respond(named, response, answered=response.ends_request)

    def on_failed(self, fetch: Fetch, response: PartitionData) -> Iterator[tuple[FetchPart, PartitionData]]:
        """Yield the parts that failed with the fetch."""
        self._on_done(fetch)
        for part in list(fetch.session.parts.values()) if self._end(fetch.session) else fetch.parts:
            yield from self._respond(part, response, answered=True)

    def clear(self) -> None:
        """Forget all sessions and all parts in flight."""
        self.open.clear()
        self._by_target.clear()
        self._express.clear()
        self._express_since.clear()
        self._open_at.clear()

    def _respond(
        self, part: FetchPart, response: PartitionData, *, answered: bool
    ) -> Iterator[tuple[FetchPart, PartitionData]]:
        if part.position.in_flight is not part:  # it was given up
            return
        if answered:
            part.position.in_flight = None
            part.fetch.session.parts.pop(part.route.partition_id, None)
        yield part, response

    def _end(self, session: FetchSession) -> bool:
        """End the session, so that the next fetch begins another one. Return whether it had not ended before."""
        is_current = self._by_target.get(session.target) is session
        if is_current:
            del self._by_target[session.target]
        return is_current

    def _on_done(self, fetch: Fetch) -> None:
        if fetch in self.open:
            del self.open[fetch]
            fetch.session.open -= 1
            self._open_at[fetch.target.address] -= 1
        if self._express.get(fetch.target) is fetch:
            del self._express[fetch.target]
