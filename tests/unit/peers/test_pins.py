"""Peers are pinned to what somebody has looked at: versions and checksums, and no word of where they come from."""

from __future__ import annotations

import json
import re

from peers.place import HERE


def test_packages_of_pypi_have_their_checksums() -> None:
    text = (HERE / "librdkafka_2_3" / "requirements.txt").read_text()
    assert re.findall(r"^([^ #]+)==", text, re.MULTILINE) == ["confluent-kafka"]
    assert "==2.3.0 " in text
    assert "--hash=sha256:" in text
    assert "://" not in text


def test_packages_of_npm_are_at_one_version_with_a_checksum_each() -> None:
    wanted = json.loads((HERE / "kafkajs" / "package.json").read_text())["dependencies"]
    locked = json.loads((HERE / "kafkajs" / "package-lock.json").read_text())["packages"]
    root = locked.pop("")
    assert root["dependencies"] == wanted
    assert all(locked[f"node_modules/{name}"]["version"] == version for name, version in wanted.items())
    assert all("integrity" in package and "resolved" not in package for package in locked.values())


def test_modules_of_go_have_their_checksums() -> None:
    module = (HERE / "go" / "go.mod").read_text()
    checksums = (HERE / "go" / "go.sum").read_text()
    required = re.findall(r"^\t(\S+) (v\S+)", module, re.MULTILINE)
    assert {"github.com/twmb/franz-go", "github.com/IBM/sarama"} < {name for name, _ in required}
    for name, version in required:
        assert f"{name} {version} h1:" in checksums
