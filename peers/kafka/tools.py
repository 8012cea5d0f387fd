"""Apache Kafka's command-line tools, by the names of their scripts, without the scripts."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Final

from peers.jvm import SHORT_LIVED
from peers.kafka.jars import classpath, java
from peers.place import PeerError
from peers.security import properties_file

_TOOLS: Final = "org.apache.kafka.tools"
_MAIN: Final = {
    "kafka-acls": f"{_TOOLS}.AclCommand",
    "kafka-broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "kafka-client-metrics": f"{_TOOLS}.ClientMetricsCommand",
    "kafka-cluster": f"{_TOOLS}.ClusterTool",
    "kafka-configs": f"{_TOOLS}.ConfigCommand",
    "kafka-console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "kafka-console-producer": f"{_TOOLS}.ConsoleProducer",
    "kafka-consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "kafka-delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "kafka-dump-log": f"{_TOOLS}.DumpLogSegments",
    "kafka-features": f"{_TOOLS}.FeatureCommand",
    "kafka-get-offsets": f"{_TOOLS}.GetOffsetShell",
    "kafka-leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs": f"{_TOOLS}.LogDirsCommand",
    "kafka-metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "kafka-producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "kafka-topics": f"{_TOOLS}.TopicCommand",
    "kafka-transactions": f"{_TOOLS}.TransactionsCommand",
    "kafka-verifiable-consumer": f"{_TOOLS}.VerifiableConsumer",
    "kafka-verifiable-producer": f"{_TOOLS}.VerifiableProducer",
}
_ADDRESS: Final = "--bootstrap-server"
_QUICK_START: Final = (*SHORT_LIVED, "-Xmx256m")
_LIMIT_S: Final = 60.0
_CONFIG: Final = "--command-config"


def command(tool: str, arguments: Sequence[str]) -> list[str]:
    """To be started as it is. Raises PeerError where the jars can't be had."""
    return [java(), *_QUICK_START, "-cp", classpath(), _MAIN[tool], *_secured(arguments)]


def _secured(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the security of this process's connections, if the tool connects and has none."""
    file = properties_file()
    if file is None or _ADDRESS not in arguments or _CONFIG in arguments:
        return list(arguments)
    # Right behind the address. Some tools expect it before the name of their command, others after that name.
    behind = arguments.index(_ADDRESS) + 2
    return [*arguments[:behind], _CONFIG, str(file), *arguments[behind:]]


def run_tool(tool: str, *arguments: str, given: str = "") -> str:
    """What the tool says on stdout, with `given` on its stdin. Raises PeerError with all it said where it fails."""
    done = subprocess.run(
        command(tool, arguments), input=given, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    if done.returncode != 0:
        raise PeerError(f"{tool} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
