"""The bytes that all connections of a listener hold together, and who may hold how much of them.

Each connection has an account. Most of the budget is for every connection, in shares of what is left: a connection may
hold at most six times as much as is free, and an address at most eight times. So one that takes all it can get leaves a
part for the others, and a frame of the greatest length still has room if no other connection needs it.

Two parts are kept back. One is for frames that need little more to end. They then give back what they hold; without
this part, frames that together fill the budget would all wait for each other. The other part is for small requests,
whose responses hold nothing once they are taken. They must never wait for large ones.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ottla_core.event_loop.slices import Slice

SMALL: Final = 0
LARGE: Final = -1
"""Requests for room other than the bytes that a frame needs to end. They are for a small response, or for one of any
size."""

_CONNECTION_SHARE: Final = 6
_ADDRESS_SHARE: Final = 8
_KEPT_BACK: Final = 16
"""Each of the two reserves is this fraction of the budget: one part in `_KEPT_BACK`."""
_LOOKS: Final = 16
"""How many waiting connections are checked whenever something is given back; each tick checks all of them."""


class Waiting(Protocol):
    """A connection that waits for room, or for batches to be appended."""

    def on_room(self) -> None: ...


@dataclass(slots=True)
class _Address:
    held_bytes: int = 0
    accounts: int = 0


class Budget:
    def __init__(self, max_bytes: int, slice_s: float = math.inf) -> None:
        """Create the budget. Connections that are let in may run for `slice_s` before others have their turn on the
        loop."""
        self.held_bytes = 0
        self._slice_s: Final = slice_s
        self._max_bytes: Final = max_bytes
        self._for_ends: Final = max_bytes // _KEPT_BACK
        self._for_anybody: Final = max_bytes - 2 * self._for_ends
        self._ample_bytes: Final = self._for_anybody // 2
        self._promised_bytes = 0  # to frames that may end
        self._addresses: Final[dict[str, _Address]] = {}
        self._waiting: Final[deque[Account]] = deque()
        self._looks = 0  # how many looks at waiting connections are due
        self._is_letting_in = False

    def account(self, address: str, connection: Waiting) -> Account:
        """Return the account of a new connection; close it together with the connection."""
        shared = self._addresses.setdefault(address, _Address())
        shared.accounts += 1
        return Account(self, address, shared, connection)

    def on_tick(self) -> None:
        """Look whether a waiting connection may continue, because shares change even when nothing is given back."""
        self._let_in(len(self._waiting))

    @property
    def is_ample(self) -> bool:
        """It tells whether so much is free that any connection may take more."""
        return self.held_bytes < self._ample_bytes

    def fits(self, account: Account, requested: int) -> bool:
        """Return whether the account may have more now. `requested` is SMALL, LARGE, or the bytes that a frame needs to
        end."""
        if self.is_ample:
            return True
        if requested == SMALL:
            return self.held_bytes - account.held_bytes < self._max_bytes
        if account.promised_bytes or self.free(account) > 0:
            return True
        if not 0 < requested <= self._for_ends - self._promised_bytes:
            return False
        account.promised_bytes = requested
        self._promised_bytes += requested
        return True

    def free(self, account: Account) -> int:
        """Return how much the account may take of the common part without exceeding its shares.

        0 or less means that it may take nothing.
        """
        free = self._for_anybody - self.held_bytes
        return min(
            (_CONNECTION_SHARE * free - account.held_bytes) // (_CONNECTION_SHARE + 1),
            (_ADDRESS_SHARE * free - account.address.held_bytes) // (_ADDRESS_SHARE + 1),
        )

    def wait(self, account: Account) -> None:
        self._waiting.append(account)

    def change(self, size_bytes: int) -> None:
        self.held_bytes += size_bytes
        if size_bytes < 0 and self._waiting:
            self._let_in(_LOOKS)

    def end_promise(self, account: Account) -> None:
        self._promised_bytes -= account.promised_bytes
        account.promised_bytes = 0

    def close(self, account: Account, name: str) -> None:
        self.end_promise(account)
        account.address.accounts -= 1
        if not account.address.accounts:
            del self._addresses[name]
        if account.requested is not None:
            account.requested = None
            self._waiting.remove(account)

    def _let_in(self, looks: int) -> None:
        """Check waiting connections in turn. One that may not go on is checked again after the others.

        A connection that continues may give something back at once, which the running look sees. Otherwise each would
        let in the next inside of its own call, and with many waiting connections that is deeper than Python allows.
        """
        self._looks = min(self._looks + looks, len(self._waiting))
        if not self._is_letting_in:
            self._is_letting_in = True
            self._look_on()

    def _look_on(self) -> None:
        """Work in slices, because each connection that continues may have requests that are served at once."""
        slice_ = Slice(self._slice_s)
        try:
            while self._looks > 0 and self._waiting:
                self._looks -= 1
                account = self._waiting.popleft()
                assert account.requested is not None, "an account that waits has requested room"
                if self.fits(account, account.requested):
                    account.go_on()
                else:
                    self._waiting.append(account)
                if slice_.is_over:
                    break
        finally:
            if self._looks > 0 and self._waiting:
                asyncio.get_running_loop().call_soon(self._look_on)
            else:
                self._is_letting_in, self._looks = False, 0


class Account:
    """The bytes that one connection holds: those that it counts by `change`, those lent to the response that is being
    read for it, and those of batches that are not appended yet."""

    __slots__ = (
        "_budget", "_connection", "_is_closed", "_lent_bytes", "_name", "_pending_bytes", "address", "held_bytes",
        "promised_bytes", "requested",
    )  # fmt: skip

    def __init__(self, budget: Budget, name: str, address: _Address, connection: Waiting) -> None:
        self.address: Final = address
        self.held_bytes = 0
        self.promised_bytes = 0
        self.requested: int | None = None  # how much room it waits for
        self._budget: Final = budget
        self._name: Final = name
        self._connection: Waiting | None = connection
        self._lent_bytes = 0
        self._pending_bytes = 0
        self._is_closed = False

    @property
    def waits(self) -> bool:
        return self.requested is not None

    def change(self, size_bytes: int) -> None:
        """Change the number of bytes held by this."""
        self.held_bytes += size_bytes
        self.address.held_bytes += size_bytes
        self._budget.change(size_bytes)

    def has_room(self, requested: int) -> bool:
        """Return whether more may be held. `requested` is SMALL, LARGE, or as much as a frame needs to end. If not,
        `on_room` is called once there is room."""
        if self.requested is None:
            if self._budget.fits(self, requested):
                return True
            self.requested = requested
            self._budget.wait(self)
        return False

    def free(self) -> int:
        """Return how much may be taken at once. 0 or less means nothing."""
        return max(self.promised_bytes, self._budget.free(self))

    def end_promise(self) -> None:
        """Note that the frame that was let end has ended."""
        if self.promised_bytes:
            self._budget.end_promise(self)

    def lend(self, requested_bytes: int) -> int:
        """Lend memory for a response that is being read (`ResponseRoom`); the connection gives it back once it has
        written the response."""
        lent = 0 if self._is_closed else max(0, min(requested_bytes, self._budget.free(self)))
        self._lend(lent)
        return lent

    def give_back(self, size_bytes: int) -> None:
        if not self._is_closed:
            self._lend(-size_bytes)

    def give_back_all(self) -> None:
        if self._lent_bytes:
            self._lend(-self._lent_bytes)

    def _lend(self, size_bytes: int) -> None:
        if size_bytes:
            self._lent_bytes += size_bytes
            self.change(size_bytes)

    def pend(self, size_bytes: int, until: asyncio.Future[Any]) -> None:
        """Hold these bytes until the future is done. The connection begins no request before."""
        self._pending_bytes += size_bytes
        self.change(size_bytes)

        def on_done(_: asyncio.Future[Any]) -> None:
            if not self._is_closed:
                self._pending_bytes -= size_bytes
                self.change(-size_bytes)
                if self._connection is not None:
                    self._connection.on_room()

        until.add_done_callback(on_done)

    @property
    def is_pending(self) -> bool:
        return self._pending_bytes > 0

    def go_on(self) -> None:
        self.requested = None
        if self._connection is not None:
            self._connection.on_room()

    def close(self) -> None:
        """Note that the connection has ended, and holds nothing."""
        self._is_closed = True
        # The connection refers to its account. Without this, both would stay, and a TLS session with them, until a
        # collection of garbage, or for ever (ottla_core.process.garbage).
        self._connection = None
        self._lent_bytes = 0
        self.change(-self.held_bytes)
        self._budget.close(self, self._name)
