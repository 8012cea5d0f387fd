"""This module judges whether a table is served while the disk of one broker is full and others have room.

Nothing is lost if the broker with the full disk leads, so no judge of records would notice.
"""

from __future__ import annotations

from typing import Final

from tests.world.fibers import World
from tests.world.findings import Findings
from tests.world.metadata import Metadata

from ottla_core.cluster.image import Partition

_SERVED_S: Final = 8.0
"""A broker finds out within two seconds that its disk is full, and a producer gives up a request after three."""
_HEARD_S: Final = 1.0
"""A controller knows within this time what a registration says."""
_LOOK_S: Final = 0.1


class Service:
    """This checks that clients can write and read, as long as that is demanded."""

    def __init__(self, world: World, metadata: Metadata, findings: Findings) -> None:
        self._world: Final = world
        self._metadata: Final = metadata
        self._findings: Final = findings
        self._is_demanded = False
        self._with_writes = False
        self._written_at = self._read_at = 0.0

    def demand(self, *, writes: bool) -> None:
        """Demand from now on that the table can be read, and with `writes` that acks=all succeeds."""
        self._written_at = self._read_at = self._world.now
        self._with_writes = writes
        if not self._is_demanded:
            self._is_demanded = True
            self._look()

    def release(self) -> None:
        self._is_demanded = False

    def on_written(self) -> None:
        """Note that a write was acknowledged by acks=all."""
        self._written_at = self._world.now

    def on_read(self) -> None:
        """Note that the table was read to its end."""
        self._read_at = self._world.now

    def on_election(self, new: Partition) -> None:
        """Check that a broker with a full disk leads only if no other member of the ISR has room."""
        full = self._metadata.full
        since = full.get(new.leader)
        if self._is_demanded and since is not None and self._world.now - since > _HEARD_S:
            with_room = [each for each in new.isr if each in self._metadata.registered and each not in full]
            if with_room:
                self._findings.violate(
                    f"broker {new.leader}, whose disk is full, was elected instead of one of {with_room}"
                )

    def _look(self) -> None:
        if not self._is_demanded:
            return
        now = self._world.now
        for what, at in (("written", self._written_at), ("read", self._read_at)):
            if now - at > _SERVED_S and (what == "read" or self._with_writes):
                self._findings.violate(
                    f"the table could not be {what} for {_SERVED_S:.0f} s, although a replica could serve"
                )
                self.release()
        self._world.after(_LOOK_S, self._look)
