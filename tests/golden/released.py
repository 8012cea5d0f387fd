"""What the last release wrote: the lines of its messages, and samples of its other formats with their meanings.

`python -m tests.golden.released --record 0.2.0` records in `released_formats.json` what this tree writes. Only a
release does that. Between releases, the file changes only if the code renames a field that occurs in a meaning.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Final

sys.path.append(str(Path(__file__).parents[1] / "support"))  # as pytest's pythonpath has it

from tests.golden.formats import FORMATS, Parts
from tests.golden.message_lines import message_lines

FILE: Final = Path(__file__).with_name("released_formats.json")

_ONLY_IN_CLIENTS: Final = re.compile(
    r"\bottla\.v1\.(ActiveProducer|BrokerNode|ControllerNode|DeleteRecords(Partition|Request|Response)"
    r"|DescribeLogDirs(Request|Response)|DescribeProducers(Request|Response)|EpochEndOfPartition|EpochOfPartition"
    r"|InitProducerId(Request|Response)|LogDir|Metadata(Request|Response)|OffsetsForLeaderEpoch(Request|Response)"
    r"|PartitionAppended|PartitionLowWatermark|PartitionMetadata|PartitionProducers|PartitionRecords|PartitionSize"
    r"|Produce(Request|Response)|ReplicasOfTopic|TopicMetadata)\b"
)

UNDERSTOOD: Final[Mapping[str, str]] = {
    line: "no process sends it: clients had it in memory, and what they send is Kafka's message"
    for line in json.loads(FILE.read_text())["messages"]
    if _ONLY_IN_CLIENTS.search(line)
}
"""Lines of messages, and names of samples, that the last release wrote and this tree doesn't write. The text says why
processes of the last release can live with that. A release empties this mapping."""

_ROOT: Final = Path(__file__).parents[2]
_HEX: Final = "hex:"


def of_this_tree() -> dict[str, Any]:
    """Return today's messages and samples in the form of the file."""
    return {
        "messages": message_lines(),
        "samples": {
            f"{name}/{sample}": {"written": spelled(written), "meaning": meaning(format_.read(written))}
            for name, format_ in FORMATS.items()
            for sample, value in format_.samples.items()
            for written in [format_.write(value)]
        },
    }


def of_last_release() -> Any:
    return json.loads(FILE.read_text())


def check_recorded(release: str) -> None:
    """Raise AssertionError unless the file contains what this tree writes, under the name of that release."""
    last, now = of_last_release(), of_this_tree()
    command = f"run `python -m tests.golden.released --record {release}`, and commit {FILE.relative_to(_ROOT)}"
    assert last["release"] == release, f"the recorded formats are those of {last['release']}: {command}"
    for part, written in now.items():
        assert written == last[part], f"this tree writes other {part} than were recorded: {command}"
    assert not UNDERSTOOD, "UNDERSTOOD in tests/golden/released.py is about the release before this one: empty it"


def spelled(parts: Parts) -> dict[str, str]:
    return {name: f"{_HEX}{part.hex()}" if isinstance(part, bytes) else part for name, part in parts.items()}


def parts_of(written: Mapping[str, str]) -> Parts:
    """Return the parts that `spelled` has spelled."""
    return {
        name: bytes.fromhex(text.removeprefix(_HEX)) if text.startswith(_HEX) else text
        for name, text in written.items()
    }


def meaning(value: Any) -> Any:
    """Return an object as JSON. A field that has its default is left out, so a new field changes no meaning."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return f"{_HEX}{value.hex()}"
    if isinstance(value, PurePath):
        return str(value)
    if (named := fields_of(value)) is not None:
        return {name: meaning(each) for name, (each, default) in named.items() if each != default}
    if isinstance(value, Mapping):
        return dict(sorted((key.hex() if isinstance(key, bytes) else str(key), meaning(value[key])) for key in value))
    if isinstance(value, Set):
        return sorted(map(meaning, value), key=str)
    return [meaning(each) for each in value] if isinstance(value, list | tuple) else value


def fields_of(value: Any) -> dict[str, tuple[Any, Any]] | None:
    """Return the fields of a dataclass or a named tuple, each with its default, or None for anything else."""
    if is_dataclass(value):
        defaults = {
            field.name: field.default if field.default_factory is MISSING else field.default_factory()
            for field in fields(value)
        }
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        named: Any = type(value)
        defaults = dict.fromkeys(named._fields, MISSING) | named._field_defaults
    else:
        return None
    return {name: (getattr(value, name), default) for name, default in defaults.items()}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.released", description=__doc__)
    parser.add_argument("--record", metavar="RELEASE", required=True, help='its version, or "unreleased"')
    release = parser.parse_args(arguments).record
    # The commit that will contain the file has no name yet. Tags are left out, because a plain clone has none.
    described = ["git", "-C", str(_ROOT), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty= with changes"]
    commit = subprocess.run(described, capture_output=True, text=True, check=True).stdout.strip()
    now = of_this_tree()
    FILE.write_text(json.dumps({"release": release, "recorded_on": commit, **now}, indent=1, ensure_ascii=False) + "\n")
    print(f"{FILE.relative_to(_ROOT)}: {len(now['messages'])} lines and {len(now['samples'])} samples of {release}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
