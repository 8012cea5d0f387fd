"""The clients are moving to Kafka's messages. In the end only private calls will use protobuf (docs/adr/0046)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

SDK: Final = Path(__file__).parents[2] / "sdk" / "ottla"
IMPORT: Final = re.compile(
    r"^\s*from ottla_proto(\.\w+)? import .*_pb2|^\s*from ottla_proto\.(\w+_pb2|client_calls)\b", re.M
)
MOST: Final = 56
"""Lower this number with each file that no longer imports protobuf's messages."""


def test_no_more_files_import_protobufs_messages() -> None:
    files = [path for path in SDK.rglob("*.py") if IMPORT.search(path.read_text())]
    assert len(files) == MOST, "lower MOST" if len(files) < MOST else sorted(map(str, files))
