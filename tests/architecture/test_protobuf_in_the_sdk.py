"""Clients ask in Kafka's messages. Protobuf is for private calls and mirrors, and is imported at first use
(docs/adr/0046)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

SDK: Final = Path(__file__).parents[2] / "sdk" / "ottla"
IMPORT: Final = re.compile(r"^\s*from (google\.protobuf|ottla_proto)(?!\.operation)\b", re.M)
MOST: Final = 9
"""Lower this number with each file that no longer imports protobuf."""


def test_no_more_files_import_protobuf() -> None:
    files = [path for path in SDK.rglob("*.py") if IMPORT.search(path.read_text())]
    assert len(files) == MOST, "lower MOST" if len(files) < MOST else sorted(map(str, files))


def test_producers_and_consumers_import_no_protobuf() -> None:
    program = (
        "import sys, ottla; "
        "print(ottla.Producer, ottla.Consumer, ottla.Admin, ottla.aio); "
        "print(*[name for name in sys.modules if 'protobuf' in name or name.endswith('_pb2')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[1] == ""


def test_mirror_clients_are_found_without_an_import_of_their_own() -> None:
    program = "import ottla.aio as a; assert 'MirrorClient' in dir(a); assert a.mirror.MirrorClient is a.MirrorClient"
    subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True)
