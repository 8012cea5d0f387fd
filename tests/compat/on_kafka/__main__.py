"""`python -m tests.compat.on_kafka <kind> <report> <pytest's arguments>`: one run, in a process of its own."""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
from tests.compat.on_kafka.cells import Cells
from tests.compat.on_kafka.cluster import KafkaCluster
from tests.compat.on_kafka.kind import KINDS
from tests.compat.on_kafka.servers import Servers
from tests.regressions.injection import constant
from tests.regressions.injector import Notes, install


def main(kind: str, report: str, *arguments: str) -> int:
    with (
        tempfile.TemporaryDirectory(prefix="ottla-on-kafka-") as folder,
        Servers(KINDS[kind], Path(folder)) as servers,
    ):
        install([constant("ottla_stack.cluster:Cluster", partial(KafkaCluster, servers))], Notes(Path(os.devnull)))
        return int(
            pytest.main(["-q", "--tb=short", "--color=no", *arguments], plugins=[Cells(KINDS[kind], Path(report))])
        )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
