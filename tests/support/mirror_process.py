"""A mirror as a process of its own, by its file; to be seen by its contract and its metrics."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from waiting import wait_until

import ottla
from ottla_core.errors import OttlaError
from ottla_core.rpc.client import Peer
from ottla_proto import mirror_pb2 as pb
from ottla_proto.contracts import Mirror
from ottla_stack.ports import free_port_base

FILE = """
redis = "{redis}"

[clusters]
east = {east}
west = {west}

[[flows]]
source = "east"
target = "west"
topics = ["{topics}"]
delivery = "{delivery}"
heartbeats = {heartbeats}
sync_acls = {sync_acls}
sync_acls_interval_s = 1
"""


def _toml(cluster: str | Mapping[str, str]) -> str:
    """A cluster by its addresses, or by its settings under Kafka's names."""
    if isinstance(cluster, str):
        return json.dumps(cluster)
    return "{ " + ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in cluster.items()) + " }"


class MirrorProcess:
    """Serves once the block has begun; what is left of it at the end is killed."""

    def __init__(
        self,
        folder: Path,
        east: str | Mapping[str, str],
        west: str | Mapping[str, str],
        topics: str,
        *,
        delivery: str = "at_least_once",
        heartbeats: bool = False,
        sync_acls: bool = False,
        node_id: int = 0,
        redis: str = "",
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._environment = {**os.environ, **environment}
        self._file = folder / f"mirror-{node_id}.toml"
        values = {"topics": topics, "delivery": delivery, "redis": redis}
        values |= {"heartbeats": json.dumps(heartbeats), "sync_acls": json.dumps(sync_acls)}
        self._file.write_text(FILE.format(east=_toml(east), west=_toml(west), **values))
        self.log = folder / f"mirror-{node_id}.log"
        self._node_id = node_id
        self._port = 0

    @property
    def address(self) -> str:
        """Its gRPC address; another one may be chosen by `start`."""
        return f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._choose_port()  # now: what was started before has its own
        self.start()
        return self

    def _choose_port(self) -> None:
        self._port = free_port_base()
        self.client = ottla.MirrorClient(self.address, request_timeout=10)
        self._raw = Peer(self.address)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        self.client.close()
        self._raw.close()

    def start(self) -> None:
        """Start it, or start it again; elsewhere, where another process has taken its port meanwhile."""
        settings = {"node-id": self._node_id, "file": self._file, "port": self._port, "admin-port": self._port + 1}
        settings["session-timeout-s"] = 6
        command = [sys.executable, "-m", "ottla_mirror", *(f"--{name}={value}" for name, value in settings.items())]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)
        wait_until(lambda: self.process.poll() is not None or self._serves())
        if self.process.poll() is not None and "holds the port" in self.log.read_text().splitlines()[-1]:
            self.client.close()
            self._raw.close()
            self._choose_port()
            self.start()
        assert self.process.poll() is None, self.log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        """End it in order; its exit code is 0."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(30) == 0, self.log.read_text()[-2000:]

    def flow(self) -> ottla.FlowInfo:
        """How it is with its one flow."""
        (flow,) = self.client.flows()
        return flow

    def cli(self, *arguments: str, exit_code: int | None = 0) -> list[dict[str, Any]]:
        """The lines that `ottla mirror` writes about it."""
        command = [sys.executable, "-m", "ottla", "mirror", *arguments, "--mirror", self.address]
        ran = subprocess.run(command, capture_output=True, check=False, text=True)
        assert exit_code in (None, ran.returncode), ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    def translate(self, topic: str, partition: int, *offsets: int) -> Sequence[pb.OffsetTranslated]:
        at = [pb.SourceOffset(topic=topic, partition=partition, offset=offset) for offset in offsets]
        request = pb.TranslateOffsetsRequest(flow="east->west", offsets=at)
        return self._raw.call(Mirror.TRANSLATE_OFFSETS, request, timeout=10).offsets

    def metrics(self) -> dict[str, float]:
        """Its series and their values, as a scrape sees them."""
        found = re.findall(r"^(ottla_mirror\S*) (\S+)$", self.scraped(), re.MULTILINE)
        return {name: float(value) for name, value in found}

    def scraped(self) -> str:
        """The text of its metrics."""
        connection = HTTPConnection("127.0.0.1", self._port + 1, timeout=10)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def _serves(self) -> bool:
        try:
            self.flow()
        except OttlaError:
            return False
        return True
