"""Puts a member's new positions where they belong, when that has been looked up; meanwhile the others are read."""

from __future__ import annotations

import logging
from typing import Final

from ottla.client.condition import Condition
from ottla.consumer.fetcher import Fetcher
from ottla.consumer.group.call import Call
from ottla.consumer.group.commits import Commits
from ottla.consumer.group.start_positions import PlaceFinder, Places
from ottla.errors import OttlaError
from ottla.machines.membership import NEVER
from ottla.machines.position import NO_EPOCH, Position
from ottla.machines.subscription import Subscription

logger = logging.getLogger("ottla.group")

_AGAIN_S: Final = 0.5


class Placing:
    """For the reader's thread; the looking up is on another. A position that the user has moved stays there."""

    def __init__(
        self, finder: PlaceFinder, commits: Commits, subscription: Subscription, fetcher: Fetcher, name: str
    ) -> None:
        self._finder: Final = finder
        self._commits: Final = commits
        self._subscription: Final = subscription
        self._fetcher: Final = fetcher
        self._name: Final = name
        self._found: Final = Condition()
        self._call: Call[Places] | None = None
        self._asked: dict[Position, int] = {}  # what is looked up, and which version of it
        self._again_at = 0.0

    def see_to(self) -> None:
        """Take what was found, and look up what is missing. Raises where nobody says where to begin."""
        if self._call is not None and self._call.done:
            call, self._call = self._call, None
            self._on_found(call)
        missing = self._missing()
        if self._call is None and missing and self._fetcher.clock.monotonic() >= self._again_at:
            self._asked = {position: position.version for position in missing}
            wanted = sorted(position.partition for position in missing)
            self._call = Call(f"ottla-places-{self._name}", lambda: self._finder.find(wanted), self._tell).start()

    def wait(self) -> None:
        """Until nothing is missing. Raises like `see_to`, and what interrupts or closes the consumer."""
        while self._missing():
            self.see_to()
            with self._found:
                self._fetcher.check_wanted()
                if self._missing() and (self._call is None or not self._call.done):
                    self._found.wait(_AGAIN_S)

    def wake(self) -> None:
        """Let whoever waits look whether that is still wanted."""
        with self._found:
            self._found.notify_all()

    def next_at(self) -> float:
        """When to come by without news."""
        return self._again_at if self._call is None and self._missing() else NEVER

    def _missing(self) -> list[Position]:
        with self._fetcher.lock:
            return [p for p in self._subscription.positions.values() if p.offset is None and p.start is None]

    def _tell(self) -> None:
        self._fetcher.call_attention()
        self.wake()

    def _on_found(self, call: Call[Places]) -> None:
        try:
            places = call.result()
        except OttlaError as error:
            if not error.retriable or self._fetcher.closed:
                raise
            self._again_at = self._fetcher.clock.monotonic() + _AGAIN_S
            logger.warning("where %s goes on is not known yet: %s", self._name, error)
            return
        refused = [self._put(position, version, places) for position, version in self._asked.items()]
        for nowhere in filter(None, refused):
            raise nowhere

    def _put(self, position: Position, version: int, places: Places) -> OttlaError | None:
        place = places[position.partition]
        with self._fetcher.lock:
            if position.version != version or place.error is not None:
                return None if position.version != version else place.error
            position.stop, position.topic_id = place.stop, place.topic_id
            self._subscription.seek(position, place.offset, NO_EPOCH if place.epoch is None else place.epoch)
        if place.committed:
            self._commits.known[position.partition] = place.offset
        return None
