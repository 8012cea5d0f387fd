"""The network between simulated processes: byte streams for Kafka's protocol, and calls in the place of gRPC.

Messages of one connection arrive in their order, each after a delay of its own. A connection ends when one of its
processes ends.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final

from tests.world.fibers import World

_LEAST_S: Final = 50e-6
_MOST_S: Final = 400e-6


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: Network, source: Any, target: Any) -> None:
        self._network: Final = network
        self.source: Final = source
        self.target: Final = target
        self._arrives_at = 0.0

    def send(self, arrive: Callable[[], None]) -> None:
        """Have something happen at the other end, if that still lives then, after all that was sent before."""
        world = self._network.world
        at = world.now + self._network.delay_s()
        at = self._arrives_at = max(at, self._arrives_at, self._network.cut_until(self.source.name, self.target.name))
        world.at(at, lambda: arrive() if self.target.is_alive else None)


class Network:
    def __init__(self, world: World) -> None:
        self.world: Final = world
        self.servers: Final[dict[tuple[str, int], Any]] = {}
        self.look_s = 0.1
        """How often a controller looks whether a process is dead (module health)."""
        self._cuts: Final[dict[tuple[str, str], float]] = {}
        self._silent: Final[dict[tuple[str, str], float]] = {}
        self._ports: Final = itertools.count(20_000)

    def delay_s(self) -> float:
        delay: float = self.world.random.uniform(_LEAST_S, _MOST_S)
        return delay

    def cut(self, source: str, target: str, seconds: float) -> None:
        """Hold back what one host sends to the other."""
        self.world.note(f"{source} -> {target} is cut for {seconds:.3f} s")
        self._cuts[source, target] = max(self.cut_until(source, target), self.world.now + seconds)

    def silence(self, one: str, other: str, seconds: float) -> None:
        """Drop all packets between two hosts: connections neither break nor begin, and ports don't refuse.

        What was sent meanwhile arrives later, as TCP sends it again, and so does the end of a process.
        """
        for pair in ((one, other), (other, one)):
            self._cuts[pair] = max(self.cut_until(*pair), self.world.now + seconds)
            self._silent[pair] = max(self._silent.get(pair, 0.0), self.world.now + seconds)

    def is_silent(self, source: str, target: str) -> bool:
        return self._silent.get((source, target), 0.0) > self.world.now

    async def until_heard(self, source: str, target: str) -> None:
        """Wait until packets arrive, as one who connects does."""
        while self.is_silent(source, target):
            await asyncio.sleep(self._silent[source, target] - self.world.now + _LEAST_S)

    def cut_until(self, source: str, target: str) -> float:
        return self._cuts.get((source, target), 0.0)

    @property
    def is_whole(self) -> bool:
        """Return whether no host is cut off from another one now."""
        return self.whole_at <= self.world.now

    @property
    def whole_at(self) -> float:
        """Return when the last of the present cuts ends, or a time in the past."""
        return max(self._cuts.values(), default=0.0)

    def free_port(self) -> int:
        return next(self._ports)

    # ---- byte streams ----------------------------------------------------------------------------------------------

    def listen(self, process: Any, factory: Callable[[], Any], host: str, port: int) -> Listening:
        port = port or self.free_port()
        if (host, port) in self.servers:
            raise OSError(98, f"{host}:{port} is in use")
        server = Listening(self, process, factory, host, port)
        self.servers[host, port] = server
        process.on_end.append(server.close)
        return server

    async def connect(self, process: Any, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """Return transport and protocol. Raises ConnectionRefusedError."""
        await asyncio.sleep(self.delay_s() * 2)
        await self.until_heard(process.name, host)
        server = self.servers.get((host, port))
        if server is None or self.cut_until(process.name, server.process.name) > self.world.now:
            raise ConnectionRefusedError(111, f"{host}:{port} takes no connection")
        mine = Stream(self, process, (process.name, self.free_port()), (host, port))
        other = Stream(self, server.process, (host, port), mine.own)
        mine.join(other)
        other.join(mine)
        mine.protocol = factory()
        other.begin(server.factory)
        mine.protocol.connection_made(mine)
        return mine, mine.protocol


class _Socket:
    def __init__(self, address: tuple[str, int]) -> None:
        self._address: Final = address

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def setsockopt(self, *_: object) -> None:
        pass


class Listening:
    """A port that takes connections."""

    def __init__(self, network: Network, process: Any, factory: Callable[[], Any], host: str, port: int) -> None:
        self.process: Final = process
        self.factory: Final = factory
        self._network: Final = network
        self._address: Final = (host, port)
        self.sockets: Final = [_Socket(self._address)]

    def close(self) -> None:
        if self._network.servers.get(self._address) is self:
            del self._network.servers[self._address]


class Stream(asyncio.Transport):
    """One end of a connection. Its bytes are delivered on the loop of its process."""

    protocol: Any

    def __init__(self, network: Network, process: Any, own: tuple[str, int], peer: tuple[str, int]) -> None:
        super().__init__()
        self.own: Final = own
        self.peer: Final = peer
        self._network: Final = network
        self._process: Final = process
        self._other: Stream
        self._pipe: Pipe
        self._is_closing = False
        self._is_over = False
        self._is_paused = False
        self._held: Final = bytearray()

    def join(self, other: Stream) -> None:
        self._other = other
        self._pipe = Pipe(self._network, self._process, other._process)
        self._process.on_end.append(self._on_process_end)

    def begin(self, factory: Callable[[], Any]) -> None:
        def accept() -> None:
            self.protocol = factory()
            self.protocol.connection_made(self)

        self._process.loop.call_soon_threadsafe(accept)

    # ---- what the protocol calls -----------------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if self._is_closing:
            return
        other, sent = self._other, bytes(data)
        self._pipe.send(lambda: other.on_bytes(sent))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            other = self._other
            self._pipe.send(lambda: other.on_end())
            self._process.loop.call_soon(self._lose)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self._process.loop.call_soon(self._deliver, b"")

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.peer, "sockname": self.own}.get(name, default)

    def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    # ---- what comes from the other end -----------------------------------------------------------------------------

    def on_bytes(self, data: bytes) -> None:
        self._process.loop.call_soon_threadsafe(self._deliver, data)

    def _deliver(self, data: bytes) -> None:
        """Give the protocol what has come, in its order, until it pauses."""
        self._held += data
        protocol = self.protocol
        while self._held and not self._is_paused and not self._is_closing:
            if isinstance(protocol, asyncio.BufferedProtocol):
                buffer = memoryview(protocol.get_buffer(len(self._held)))
                count = min(len(buffer), len(self._held))
                buffer[:count] = self._held[:count]
                del self._held[:count]
                protocol.buffer_updated(count)
            else:
                arrived = bytes(self._held)
                self._held.clear()
                protocol.data_received(arrived)

    def on_end(self) -> None:
        self._process.loop.call_soon_threadsafe(self._on_other_closed)

    def _on_other_closed(self) -> None:
        self._is_closing = True
        self._lose()

    def _lose(self) -> None:
        if not self._is_over:
            self._is_over = True
            self.protocol.connection_lost(None)

    def _on_process_end(self) -> None:
        """The system closes the connections of a process that is gone."""
        if not self._is_closing:
            self._is_closing = True
            other = self._other
            self._pipe.send(lambda: other.on_end())
