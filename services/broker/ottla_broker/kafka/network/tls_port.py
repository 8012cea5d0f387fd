"""Keeps what the TLS connections of one port share: the certificate, the handshakes that are under way, and their
limits.

A handshake costs memory before anyone knows the client. So their number is limited, and with it their bytes. When there
are too many, one of the address with the most handshakes ends, so that no address can end the handshakes of others by
the number of its own. It is one whose client has to send something: the first one that the broker has answered, if its
client is late, or else the first one without an answer. If all of the address's handshakes wait for the broker, the
last one ends. If the oldest one ended, a broker that can't keep up with its clients would finish no handshake at all.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final, Protocol

from ottla_broker.kafka.network.by_host import ByHost
from ottla_broker.kafka.network.limits import ConnectionLimits
from ottla_broker.kafka.network.tls_session import TlsSession
from ottla_broker.kafka.network.turns import Turns

_SCRATCH_BYTES: Final = 64 * 1024
_NEXT_MESSAGE_S: Final = 1.0
"""An honest client sends its next message within this time, however far away it is."""


class TlsIdentity(Protocol):
    """It shows clients of a port the broker's certificate, and names them by theirs."""

    def context(self) -> ssl.SSLContext:
        """Return the latest certificates, for a new connection."""
        ...

    def principal(self, certificate: bytes | None) -> str:
        """Return the principal of a client that has shown this certificate. Raises NoPrincipalError if the certificate
        names none."""
        ...


class Handshake(Protocol):
    """A connection whose handshake is not done."""

    def refuse(self, reason: str) -> None:
        """End the connection, and report the reason."""
        ...

    def abort(self) -> None: ...


class TlsPort:
    """The TLS of one port. Several ports may share `turns`, which are for data, and `newcomers`, which are for
    handshakes and for the ends of connections."""

    def __init__(
        self,
        identity: TlsIdentity,
        limits: Callable[[], ConnectionLimits],
        turns: Turns,
        newcomers: Turns,
        now: Callable[[], float],
        on_rejected: Callable[[str, str], None],
    ) -> None:
        self._limits: Final = limits
        self.turns: Final = turns
        self.newcomers: Final = newcomers
        self.on_rejected: Final = on_rejected
        self.principal: Final = identity.principal
        self.scratch: Final = memoryview(bytearray(_SCRATCH_BYTES))
        """Reads go into this buffer. A connection that has read into it takes everything out before another reads."""
        self._identity: Final = identity
        self._now: Final = now
        self._handshakes: Final[dict[Handshake, float]] = {}
        """When each has begun."""
        self._by_host: Final[ByHost[Handshake]] = ByHost()
        # The handshakes that wait for their clients, and since when.
        self._unanswered: Final[dict[Handshake, float]] = {}
        self._answered: Final[dict[Handshake, float]] = {}

    @property
    def limits(self) -> ConnectionLimits:
        return self._limits()

    def new_session(self) -> TlsSession:
        return TlsSession(self._identity.context())

    @property
    def handshakes(self) -> int:
        """The number of handshakes under way."""
        return len(self._handshakes)

    def on_begin(self, handshake: Handshake, host: str) -> None:
        self._handshakes[handshake] = self._unanswered[handshake] = self._now()
        self._by_host.add(host, handshake)
        limit = self.limits.max_handshakes
        if len(self._handshakes) > limit:
            self._next_to_end().refuse(f"more than {limit} TLS handshakes are open, and most of them from its address")

    def _next_to_end(self) -> Handshake:
        of_busiest = self._by_host.of_busiest()
        answered = next((each for each in of_busiest if each in self._answered), None)
        if answered is not None and self._now() - self._answered[answered] > _NEXT_MESSAGE_S:
            return answered
        return next((each for each in of_busiest if each in self._unanswered), None) or [*of_busiest][-1]

    def on_heard(self, handshake: Handshake) -> None:
        """Note that the client has sent something, so that the handshake waits for the broker."""
        self._unanswered.pop(handshake, None)
        self._answered.pop(handshake, None)

    def on_waiting(self, handshake: Handshake, *, is_answered: bool) -> None:
        """Note that the client has to send more, and whether the broker has sent it anything so far."""
        (self._answered if is_answered else self._unanswered)[handshake] = self._now()

    def on_end(self, handshake: Handshake, host: str) -> None:
        self._handshakes.pop(handshake, None)
        self._by_host.drop(host, handshake)
        self.on_heard(handshake)

    def on_tick(self, now: float) -> None:
        """End the handshakes that take too long. It is called once a second."""
        limit_s = self.limits.handshake_s
        for handshake in [one for one, begun_at in self._handshakes.items() if now - begun_at > limit_s]:
            handshake.refuse(f"the TLS handshake was not done within {limit_s} s")

    def abort_all(self) -> None:
        for handshake in list(self._handshakes):
            handshake.abort()
