"""Who stands where a broker is away: counts the connections that its clients try to make, and closes each at once."""

from __future__ import annotations

import socket
from threading import Thread
from typing import Self

from waiting import wait_until


class Knocks:
    """In the place of the broker at `address`, which has been killed; leaving the block makes room for it again."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.count = 0
        self._server = socket.create_server((host, int(port)))
        self._thread = Thread(target=self._run, name=f"nobody at {address}", daemon=True)

    def until(self, more: int) -> None:
        """Return once so many more have come in vain."""
        before = self.count
        wait_until(lambda: self.count >= before + more)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(10.0)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            connection.close()
            self.count += 1
