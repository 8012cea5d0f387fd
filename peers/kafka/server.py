"""Apache Kafka itself, started and stopped: one node or three in KRaft mode, each broker and controller at once.

The settings are those of its distribution's server.properties, the JVM's flags those of its start script; only
addresses, the folder and, with three nodes, the internal topics' replication differ.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

from peers.kafka.jars import VERSION, classpath, java
from peers.place import PeerError

_JVM: Final = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    "-Dlog4j2.level=INFO",
]
_DEFAULTS: Final = {
    "process.roles": "broker,controller",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "num.network.threads": 3,
    "num.io.threads": 8,
    "socket.send.buffer.bytes": 102400,
    "socket.receive.buffer.bytes": 102400,
    "socket.request.max.bytes": 104857600,
    "num.partitions": 1,
    "num.recovery.threads.per.data.dir": 1,
    "log.retention.hours": 168,
    "log.segment.bytes": 1073741824,
    "log.retention.check.interval.ms": 300000,
}
_CLUSTER_ID: Final = "ApacheKafkaOttlasPeerQ"  # 16 bytes; a random id may begin with "-", an option to the tool
_READY_LIMIT_S: Final = 180.0
_FORMAT_LIMIT_S: Final = 60.0
_STOP_LIMIT_S: Final = 30.0
_TAIL_CHARS: Final = 2000


class KafkaServer:
    """`with KafkaServer(folder, nodes=3) as kafka:` takes connections at `kafka.bootstrap`, known before it runs.

    A folder that is new is formatted on the way in; `format()` does that beforehand. What the nodes say is in
    `node-<n>.log` there, their logs are in `node-<n>/`. The folder is the caller's. `settings` come after the defaults.
    `heap` is what a node's JVM gets; the default is that of Kafka's own start script. `features` are levels to finalize
    when the folder is formatted; the others are Kafka's defaults. `scram` are credentials to store then, as its tool
    takes them. `listeners` are further security protocols, for each of which a node has a listener of that name.
    `version` is one of those that `peers.kafka.jars` has. A node that was killed or stopped can be started again.
    """

    def __init__(
        self,
        directory: Path,
        *,
        nodes: int = 1,
        settings: Mapping[str, object] = MappingProxyType({}),
        features: Mapping[str, int] = MappingProxyType({}),
        heap: str = "1G",
        scram: Sequence[str] = (),
        listeners: Sequence[str] = (),
        version: str = VERSION,
    ) -> None:
        self._directory: Final = directory
        self._version: Final = version
        self._jvm: Final = [f"-Xms{heap}", f"-Xmx{heap}", *_JVM]
        self._own_settings: Final = settings
        self._formats: Final = [
            *(word for name, level in features.items() for word in ("--feature", f"{name}={level}")),
            *(word for credentials in scram for word in ("--add-scram", credentials)),
        ]
        ports = free_ports((2 + len(listeners)) * nodes)
        self._broker_ports: Final = ports[:nodes]
        self._controller_ports: Final = ports[nodes : 2 * nodes]
        self._further: Final = {name: ports[nodes * (2 + n) :][:nodes] for n, name in enumerate(listeners)}
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._broker_ports)

    def bootstrap_of(self, listener: str, host: str = "127.0.0.1") -> str:
        """The addresses of a further listener."""
        return ",".join(f"{host}:{port}" for port in self._further[listener])

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._running.values()]

    @property
    def running(self) -> set[int]:
        """The nodes that run, as far as this program has started and ended them."""
        return set(self._running)

    def start(self, *nodes: int) -> None:
        """Start nodes, and wait until they take connections. Raises PeerError with the end of what one said."""
        for node in nodes:
            self._running[node] = self._start(node)
        for node in nodes:
            self._wait_for(node)

    def kill(self, node: int) -> None:
        """End a node by SIGKILL."""
        process = self._running.pop(node)
        process.kill()
        process.wait()

    def stop(self, node: int) -> None:
        """Stop a node in order: it hands over what it leads."""
        self._end(self._running.pop(node))

    def format(self) -> None:
        """Make the nodes' folders. Raises PeerError."""
        for node in self._nodes():
            folder = self._folder(node)
            folder.mkdir(parents=True)
            settings = "".join(f"{name}={value}\n" for name, value in self._settings(node).items())
            self._properties(node).write_text(settings)
            command = [java(), "-cp", classpath(self._version), "kafka.tools.StorageTool", "format"]
            command += ["-t", _CLUSTER_ID, "-c", str(self._properties(node)), *self._formats]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_FORMAT_LIMIT_S, check=False)
            if done.returncode != 0:
                raise PeerError(f"Kafka's folder can't be formatted: {(done.stdout + done.stderr)[-_TAIL_CHARS:]}")

    def __enter__(self) -> Self:
        if not self._folder(0).exists():
            self.format()
        try:
            self.start(*self._nodes())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def _nodes(self) -> range:
        return range(len(self._broker_ports))

    def _folder(self, node: int) -> Path:
        return self._directory / f"node-{node}"

    def _properties(self, node: int) -> Path:
        return self._directory / f"node-{node}.properties"

    def _log(self, node: int) -> Path:
        return self._directory / f"node-{node}.log"

    def _settings(self, node: int) -> dict[str, object]:
        of_node = {"PLAINTEXT": self._broker_ports[node]} | {name: at[node] for name, at in self._further.items()}
        brokers = ",".join(f"{name}://127.0.0.1:{port}" for name, port in of_node.items())
        protocols = ",".join(["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in of_node)])
        nodes = len(self._broker_ports)
        voters = [f"{n}@127.0.0.1:{port}" for n, port in enumerate(self._controller_ports)]
        return {
            **_DEFAULTS,
            **self._own_settings,
            "node.id": node,
            "listener.security.protocol.map": protocols,
            "listeners": f"{brokers},CONTROLLER://127.0.0.1:{self._controller_ports[node]}",
            "advertised.listeners": brokers,
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": self._folder(node),
            "offsets.topic.replication.factor": nodes,
            "transaction.state.log.replication.factor": nodes,
            "transaction.state.log.min.isr": max(1, nodes - 1),
        }

    def _start(self, node: int) -> subprocess.Popen[bytes]:
        command = [java(), *self._jvm, "-cp", classpath(self._version), "kafka.Kafka", str(self._properties(node))]
        with self._log(node).open("ab") as output:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    def _wait_for(self, node: int) -> None:
        """Wait until the node takes connections. Raises PeerError with the end of what it said."""
        give_up_at = time.monotonic() + _READY_LIMIT_S
        while not takes_connections(self._broker_ports[node]):
            ended = self._running[node].poll()
            if ended is not None or time.monotonic() > give_up_at:
                why = f"ended with {ended}" if ended is not None else f"takes no connection after {_READY_LIMIT_S:g} s"
                raise PeerError(f"Kafka's node {node} {why}:\n{self._log(node).read_text()[-_TAIL_CHARS:]}")
            time.sleep(0.02)

    def _stop(self) -> None:
        """All at once: one by one, the last would wait for a quorum that has gone."""
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            self._end(process)
        self._running.clear()

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(timeout=_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def takes_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has now, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()
