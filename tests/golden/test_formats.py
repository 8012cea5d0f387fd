"""Processes of this tree live with those of the last release: each reads what the other writes.

If one of these tests fails for what the last release wrote, keep the old way of writing, or add to it so that old
readers see no difference. If their processes can live with the change, say why in `released.UNDERSTOOD`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from enum import Enum
from types import FrameType, FunctionType, ModuleType
from typing import Any, Final, get_args

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from sources import ROOT, listed
from tests.golden import released
from tests.golden.formats import FORMATS, Format
from tests.golden.message_lines import lines_of, message_lines

from ottla_broker.storage import checkpoint, producer_snapshot
from ottla_core.cluster import codec
from ottla_core.records import control, fence
from ottla_group_coordinator.machines import records as group_records
from ottla_group_coordinator.machines.consumer import records as consumer_records
from ottla_group_coordinator.machines.consumer.records import TopicMetadataKey
from ottla_group_coordinator.machines.records import CommittedOffset
from ottla_mirror.machines import mirror_records
from ottla_proto import broker_pb2
from ottla_txn_coordinator.machines import records as transaction_records
from pyspark_ottla.machines import offsets

LAST: Final = released.of_last_release()
SAMPLES: Final = [(format_, name, value) for name, format_ in FORMATS.items() for value in format_.samples.values()]

CODECS: Final[tuple[ModuleType, ...]] = (
    codec,
    group_records,
    consumer_records,
    transaction_records,
    fence,
    control,
    mirror_records,
    checkpoint,
    producer_snapshot,
    offsets,
)
"""Modules whose public functions all write or read a format, except `NO_CODECS`."""

NO_CODECS: Final = frozenset(
    {
        "pyspark_ottla.machines.offsets.differing",
        "pyspark_ottla.machines.offsets.epochs_of",
    }
)

NO_FORMATS: Final[Mapping[str, str]] = {
    "ottla_broker.compaction.cleaned_file.CleanedFile.__init__": "writes batches and indexes as a segment does",
    "ottla_broker.compaction.cleaned_file.CleanedFile.stand_for": "gives indexes their names",
    "ottla_broker.compaction.cleaned_file.CleanedFile.close": "syncs these files",
    "ottla_broker.storage.segment.Segment.refill": "cuts a log off, and makes its indexes as appends do",
    "ottla_broker.storage.reserve.Reserve.make": "the file has only zeroes",
}
"""The broker's functions that write files but need no sample of their own, and why."""

UNSET: Final[Mapping[str, str]] = {
    "CommittedOffset.expires_at_ms": "only clients before Kafka 0.9 wrote it",
}
"""Fields that no sample sets, and why."""


# ---- against the last release ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sample", LAST["samples"])
def test_what_the_last_release_wrote_means_the_same(sample: str) -> None:
    known = LAST["samples"][sample]
    assert released.meaning(format_of(sample).read(released.parts_of(known["written"]))) == known["meaning"]


@pytest.mark.parametrize("sample", LAST["samples"])
def test_the_last_release_would_have_written_the_same(sample: str) -> None:
    written, format_ = LAST["samples"][sample]["written"], format_of(sample)
    again = released.spelled(format_.write(format_.read(released.parts_of(written))))
    assert (again == written) is (sample not in released.UNDERSTOOD), (again, written)


def format_of(sample: str) -> Format:
    name = sample.rpartition("/")[0]
    assert name in FORMATS, f"FORMATS has no {name!r} any more, but the last release wrote it"
    return FORMATS[name]


def test_messages_have_changed_only_by_additions() -> None:
    gone = set(LAST["messages"]) - set(message_lines())
    assert gone == {name for name in released.UNDERSTOOD if name not in LAST["samples"]}


def test_the_record_is_that_of_the_newest_release() -> None:
    """A record of something later would hide what has changed since the release."""
    newest = re.findall(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert LAST["release"] == newest


# ---- every format has samples ---------------------------------------------------------------------------------------


def test_every_sample_is_read_as_it_was_written() -> None:
    for format_, name, value in SAMPLES:
        assert format_.read(format_.write(value)) == value, name


def test_every_kind_of_key_in_etcd_has_a_sample() -> None:
    assert {value.key[0] for value in FORMATS["etcd"].samples.values()} == codec._KINDS.keys()


def test_every_kind_of_record_of_a_group_has_a_sample() -> None:
    kinds = {type(value.key) for value in FORMATS["__consumer_offsets"].samples.values()}
    # Of the partitions of a consumer group's topics, only tombstones are written.
    assert kinds == {*get_args(group_records.Key)} - {TopicMetadataKey}


def test_every_checkpoint_of_a_broker_has_a_sample() -> None:
    constants = {name: value for name, value in vars(checkpoint).items() if name.isupper() and name[0] != "_"}
    names = {value for value in constants.values() if isinstance(value, str)}
    assert len(names) >= 8
    assert names - FORMATS.keys() == set()


def test_samples_run_every_codec_and_every_writer_of_a_brokers_files() -> None:
    codecs = {
        f"{module.__name__}.{name}"
        for module in CODECS
        for name, value in vars(module).items()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    writers = set(writers_of_files())
    called = called_by(lambda: [format_.read(format_.write(value)) for format_, _, value in SAMPLES])
    assert len(codecs) > 30
    assert codecs - called == NO_CODECS
    assert len(writers) > 10
    assert writers - called == NO_FORMATS.keys()


def test_every_field_is_set_in_a_sample() -> None:
    known: dict[str, bool] = {}
    for _, _, value in SAMPLES:
        for name, is_set in fields_in(value):
            known[name] = known.get(name, False) or is_set
    assert len(known) > 150
    assert {name for name, is_set in known.items() if not is_set} == UNSET.keys()


def called_by(work: Callable[[], object]) -> Set[str]:
    """Return the functions of all modules that `work` calls."""
    called = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(f"{frame.f_globals.get('__name__')}.{frame.f_code.co_qualname}")

    former = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(former)
    return called


def writers_of_files() -> Iterator[str]:
    """Yield the broker's functions that open a file for writes, or replace one."""
    for name in listed("services/broker/ottla_broker/*.py"):
        module = name.removeprefix("services/broker/").removesuffix(".py").replace("/", ".")
        if module != "ottla_broker.storage.files":
            yield from (f"{module}.{function}" for function in writers_in(ast.parse((ROOT / name).read_text())))


def writers_in(tree: ast.AST, within: tuple[str, ...] = ()) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            writes = any(keyword.arg == "write" for keyword in node.keywords)
            if node.func.attr in ("replace_file", "open_empty") or (node.func.attr == "open_file" and writes):
                yield ".".join(within)
        name = (node.name,) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else ()
        yield from writers_in(node, within + name)


def fields_in(value: Any) -> Iterator[tuple[str, bool]]:
    """Yield each field of the objects in `value`, and whether it is set: neither its default nor an empty value."""
    if (named := released.fields_of(value)) is not None:
        for name, (each, default) in named.items():
            yield f"{type(value).__name__}.{name}", bool(each != default and (each or isinstance(each, bool | Enum)))
            yield from fields_in(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from fields_in(each)
    elif isinstance(value, tuple | list | frozenset):
        for each in value:
            yield from fields_in(each)


# ---- the check itself -----------------------------------------------------------------------------------------------


def fetch_request() -> tuple[FileDescriptorProto, DescriptorProto]:
    file = FileDescriptorProto()
    broker_pb2.DESCRIPTOR.CopyToProto(file)
    return file, next(message for message in file.message_type if message.name == "FetchRequest")


@pytest.mark.parametrize(
    "change",
    [
        lambda message: setattr(message.field[0], "number", 99),
        lambda message: setattr(message.field[0], "name", "other"),
        lambda message: setattr(message.field[0], "type", FieldDescriptorProto.TYPE_SINT64),
        lambda message: setattr(message.field[0], "label", FieldDescriptorProto.LABEL_REPEATED),
        lambda message: message.field.pop(),
        lambda message: setattr(message, "name", "Other"),
    ],
)
def test_a_changed_field_removes_a_line(change: Callable[[DescriptorProto], object]) -> None:
    file, message = fetch_request()
    before = set(lines_of(file))
    change(message)
    assert before - set(lines_of(file))


def test_a_new_field_removes_no_line() -> None:
    file, message = fetch_request()
    before = set(lines_of(file))
    message.field.add(name="new", number=99, type=FieldDescriptorProto.TYPE_SINT64)
    assert set(lines_of(file)) > before


def test_a_field_with_its_default_has_no_part_in_a_meaning() -> None:
    assert released.meaning(CommittedOffset(42, metadata="note")) == {"offset": 42, "metadata": "note"}
