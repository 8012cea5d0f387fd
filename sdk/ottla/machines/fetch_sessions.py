"""What a consumer has requested of each target: said once, and added to by each fetch (broker.proto, FetchSession).

* A partition is requested once until it is answered by records, an error or another replica's name. A fetch costs what
  has happened, however much is requested; one is always under way while something is.
* What is requested may change until a response is there: it is of what was named in its fetch or before (`number`).
* A session ends with a fetch that fails: everything is requested anew, in another one.
* A broker without room for a session answers each fetch for itself: what it left out is requested anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Final

from ottla.machines.metadata import Route
from ottla.machines.position import Fetch, FetchPart, FetchSession, PartitionData, Position, Target
from ottla_core.model import PartitionId

_NOTHING: Final = PartitionData()


class FetchSessions:
    """Of one consumer, one for each target that it fetches from."""

    def __init__(self) -> None:
        self.open: Final[dict[Fetch, None]] = {}
        self._by_target: Final[dict[Target, FetchSession]] = {}
        self._open_at: Final[dict[str, int]] = {}
        self._ids: Final = count(1)

    def open_at(self, address: str) -> int:
        """How many fetches are under way there."""
        return self._open_at.get(address, 0)

    def begin(self, target: Target, partition_bytes: int, now: float) -> Fetch:
        """The next request to `target`, of nothing so far; `add` names what is new in it."""
        session = self._by_target.get(target)
        if session is None:
            session = self._by_target[target] = FetchSession(target, next(self._ids))
        session.number += 1
        session.open += 1
        fetch = Fetch(session, partition_bytes, now, session.number, forgotten=session.forgotten)
        session.forgotten = []
        self.open[fetch] = None
        self._open_at[target.address] = self.open_at(target.address) + 1
        return fetch

    def add(self, fetch: Fetch, position: Position, route: Route) -> None:
        """Have it name a partition, which is in flight from now on."""
        part = FetchPart(position, route, position.fetch_offset, position.version, fetch)
        fetch.parts.append(part)
        fetch.session.parts[route.partition_id] = part
        position.in_flight, position.route = part, route

    @property
    def waiting(self) -> list[Target]:
        """Where something is requested, or was and is no longer, and no fetch under way."""
        sessions = self._by_target.items()
        return [target for target, s in sessions if (s.parts or s.forgotten) and not s.open]

    @property
    def parts(self) -> list[FetchPart]:
        """All that is in flight, at whatever target."""
        return [part for session in self._by_target.values() for part in session.parts.values()]

    def withdraw(self, part: FetchPart) -> None:
        """Request it no longer; what still comes is ignored."""
        part.position.in_flight = None
        session, partition_id = part.fetch.session, part.route.partition_id
        if session.parts.get(partition_id) is part:
            del session.parts[partition_id]
            session.forgotten.append(partition_id)

    def on_response(
        self, fetch: Fetch, responses: Mapping[PartitionId, PartitionData], *, in_session: bool
    ) -> Iterator[tuple[FetchPart, PartitionData]]:
        """What is answered, or told of. What is requested no longer is in flight no more."""
        self._on_done(fetch)
        parts = fetch.session.parts
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
        """What has failed with it."""
        self._on_done(fetch)
        for part in list(fetch.session.parts.values()) if self._end(fetch.session) else fetch.parts:
            yield from self._respond(part, response, answered=True)

    def clear(self) -> None:
        """Forget all sessions and what is under way."""
        self.open.clear()
        self._by_target.clear()
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
        """Begin another one with the next fetch; whether it had not ended before."""
        is_current = self._by_target.get(session.target) is session
        if is_current:
            del self._by_target[session.target]
        return is_current

    def _on_done(self, fetch: Fetch) -> None:
        if fetch in self.open:
            del self.open[fetch]
            fetch.session.open -= 1
            self._open_at[fetch.target.address] -= 1
