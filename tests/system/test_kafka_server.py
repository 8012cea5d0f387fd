"""Apache Kafka itself as a peer: it serves, it ends with its block, and says why where it does not start."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest
from peers.kafka.server import KafkaServer
from peers.place import PeerError
from waiting import LIMIT_S

from ottla_stack.view import resident_mb


def test_it_takes_a_record_and_ends_with_its_block(tmp_path: Path) -> None:
    with KafkaServer(tmp_path) as kafka:
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        producer.produce("first", b"value")
        assert producer.flush(LIMIT_S) == 0
        (pid,) = kafka.pids
        assert resident_mb(pid) > 0
    assert kafka.pids == []
    assert resident_mb(pid) == 0


def test_a_folder_that_was_not_formatted_is_told(tmp_path: Path) -> None:
    kafka = KafkaServer(tmp_path)
    kafka.format()
    (tmp_path / "node-0" / "meta.properties").unlink()
    with pytest.raises(PeerError, match=r"node 0 ended with 1:\n[\s\S]*meta.properties"), kafka:
        pass
    assert kafka.pids == []
