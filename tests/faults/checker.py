"""Holds what clients were told against what the log holds. Pure: operations in, findings out, nothing of the product.

After Jepsen's kafka workload and kgo-verifier. Everything is judged on one merged log a partition, of all that anybody
read; only `lost` looks at the final reads alone, which went from the first offset to the end after the last fault.

    lost          acknowledged, and not in the final reads
    duplicated    one value at two offsets
    inconsistent  two values at one offset, over all readers and acknowledgements; or read once and gone in the end
    reordered     acknowledged values of one writer that lie in another order than they were sent in
    nonmonotonic  a reader was handed an offset again, or one before it
    skipped       a reader was handed an offset, and not the one before it
    failed_read   in the log, though its writer was told that it definitely was not written
    corrupted     a value that its key does not promise, or that nobody has sent

Memory is 8 bytes an offset and 16 bytes a value: numbers and offsets are dense, so both are arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.faults.history import FINAL, Operation, parse_key, value_of

KINDS: Final = (
    "lost",
    "duplicated",
    "inconsistent",
    "reordered",
    "nonmonotonic",
    "skipped",
    "failed_read",
    "corrupted",
)
_EXAMPLES: Final = 10
_NUMBER_BITS: Final = 40
_NUMBER_MASK: Final = (1 << _NUMBER_BITS) - 1
_NOTHING: Final = -1

# What a writer knows of a value where it knows no offset; above all of them is what was acknowledged. A repeat that the
# broker recognised, but no longer knows the place of, is acknowledged without an offset (DUPLICATE_SEQUENCE_NUMBER).
_NEVER_SENT, _UNKNOWN, _FAILED, _SOMEWHERE = -4, -3, -2, -1


@dataclass(slots=True)
class Findings:
    """How much was done, and per kind of `KINDS` how often it was found, with the first few in words."""

    operations: int = 0
    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0
    read: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    examples: dict[str, list[str]] = field(default_factory=dict)
    client_errors: dict[tuple[str, str], int] = field(default_factory=dict)
    """What clients were told, (process, words), and how often."""

    @property
    def clean(self) -> bool:
        return not any(self.counts.values())

    def add(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        examples = self.examples.setdefault(kind, [])
        if len(examples) < _EXAMPLES:
            examples.append(what)


class Checker:
    """Feed it every operation, those of one process in their order; then ask once for the findings."""

    def __init__(self) -> None:
        self._findings = Findings()
        self._writers: dict[str, int] = {}
        self._names: list[str] = []
        self._sent: dict[tuple[int, int], array[int]] = {}  # (writer, partition): what became of each number
        self._logs: dict[int, _MergedLog] = {}
        self._positions: dict[tuple[str, int], int] = {}  # (reader, partition): the offset that comes next

    def on_operation(self, operation: Operation) -> None:
        f, type_ = operation["f"], operation["type"]
        if f == "send":
            self._on_send(operation, type_)
        elif type_ == "ok":
            self._on_poll(operation)
        if type_ in ("info", "fail"):
            errors, told = self._findings.client_errors, (operation["process"], operation.get("error", ""))
            errors[told] = errors.get(told, 0) + operation.get("count", 1)

    def findings(self) -> Findings:
        """What is wrong with all of it together."""
        for partition, log in sorted(self._logs.items()):
            self._check_log(partition, log)
        for (writer, partition), outcomes in sorted(self._sent.items()):
            self._check_acknowledged(writer, partition, outcomes)
        return self._findings

    # ---- writers ---------------------------------------------------------------------------------------------------

    def _on_send(self, operation: Operation, type_: str) -> None:
        writer, partition = self._writer(operation["process"]), operation["partition"]
        first, count = operation["first"], operation["count"]
        outcomes = self._sent.setdefault((writer, partition), array("q"))
        if len(outcomes) < first + count:
            outcomes.extend([_NEVER_SENT] * (first + count - len(outcomes)))
        span = slice(first, first + count)
        if type_ == "invoke":
            self._findings.operations += count
            self._findings.unknown += count
            outcomes[span] = array("q", [_UNKNOWN]) * count
        elif type_ == "ok":
            offset = operation["offset"]
            self._findings.acknowledged += count
            self._findings.unknown -= count
            outcomes[span] = array("q", range(offset, offset + count) if offset >= 0 else [_SOMEWHERE] * count)
        elif type_ == "fail":
            self._findings.failed += count
            self._findings.unknown -= count
            outcomes[span] = array("q", [_FAILED]) * count

    # ---- readers ---------------------------------------------------------------------------------------------------

    def _on_poll(self, operation: Operation) -> None:
        partition, offset, process = operation["partition"], operation["offset"], operation["process"]
        log = self._logs.setdefault(partition, _MergedLog())
        final = process.startswith(FINAL)
        end = offset
        for writer, first, count in self._runs(operation):
            packed = self._writer(writer) << _NUMBER_BITS | first
            for at, was, now in log.merge(end, packed, count, final=final):
                self._findings.add(
                    "inconsistent", f"{partition}@{at}: {self._name(was)}, and to {process} {self._name(now)}"
                )
            end += count
        self._findings.operations += end - offset
        self._findings.read += end - offset
        self._check_position(process, partition, offset, end)

    def _runs(self, operation: Operation) -> Iterable[tuple[str, int, int]]:
        if "values" in operation:
            runs: Iterable[tuple[str, int, int]] = operation["values"]
            return runs
        key, value = operation["key"].encode(), operation["value"].encode()
        where = f"{operation['partition']}@{operation['offset']} to {operation['process']}"
        name = parse_key(key)
        if name is None or name.partition != operation["partition"] or value != value_of(key):
            self._findings.add("corrupted", f"{where}: key {key[:60]!r} with value {value[:60]!r}")
            return [("?", 0, 1)]
        return [(name.writer, name.number, 1)]

    def _check_position(self, process: str, partition: int, offset: int, end: int) -> None:
        expected = self._positions.get((process, partition), 0)
        if offset < expected:
            self._findings.add("nonmonotonic", f"{process} got {partition}@{offset} after {partition}@{expected - 1}")
        elif offset > expected:
            self._findings.add("skipped", f"{process} got {partition}@{offset} where {partition}@{expected} was next")
        self._positions[process, partition] = end

    # ---- judgement -------------------------------------------------------------------------------------------------

    def _check_log(self, partition: int, log: _MergedLog) -> None:
        """Walk the log once: what should not be in it, what is in it twice, what lies in the wrong order."""
        largest: dict[int, int] = {}
        for offset, packed in enumerate(log.values):
            if packed == _NOTHING:
                continue
            writer, number = packed >> _NUMBER_BITS, packed & _NUMBER_MASK
            where = f"{self._name(packed)} at {partition}@{offset}"
            if not log.is_final(offset):
                self._findings.add("inconsistent", f"{where} was read, and is gone in the end")
            outcomes = self._sent.get((writer, partition))
            outcome = outcomes[number] if outcomes is not None and number < len(outcomes) else _NEVER_SENT
            if outcome == _NEVER_SENT:
                if self._names[writer] != "?":
                    self._findings.add("corrupted", f"{where} was never sent")
                continue
            if not log.find(writer, number, offset):
                self._findings.add("duplicated", f"{where}, and at {log.offset_of(writer, number)}")
                continue
            if outcome == _FAILED:
                self._findings.add("failed_read", f"{where}, though its send failed for certain")
            elif outcome >= _SOMEWHERE:
                if number < largest.get(writer, -1):
                    self._findings.add("reordered", f"{where} lies behind number {largest[writer]}")
                largest[writer] = max(number, largest.get(writer, -1))

    def _check_acknowledged(self, writer: int, partition: int, outcomes: array[int]) -> None:
        log = self._logs.get(partition) or _MergedLog()
        for number, offset in enumerate(outcomes):
            if offset < _SOMEWHERE or (offset >= 0 and log.is_final(offset) and log.has(offset, writer, number)):
                continue
            told = f"{self._names[writer]}.{partition}.{number} was acknowledged at {partition}@{offset}"
            there = log.offset_of(writer, number)
            if there == _NOTHING or not log.is_final(there):
                self._findings.add("lost", f"{told}, and is not in the log")
            if offset >= 0 and log.holds(offset) and not log.has(offset, writer, number):
                self._findings.add("inconsistent", f"{told}, where {self._name(log.values[offset])} lies")
            elif offset >= 0 and there not in (_NOTHING, offset):
                self._findings.add("inconsistent", f"{told}, and lies at {there}")

    def _writer(self, process: str) -> int:
        index = self._writers.get(process)
        if index is None:
            index = self._writers[process] = len(self._names)
            self._names.append(process)
        return index

    def _name(self, packed: int) -> str:
        return f"{self._names[packed >> _NUMBER_BITS]}.{packed & _NUMBER_MASK}"


class _MergedLog:
    """One partition as all readers together saw it: the value at each offset, and whether a final read had it."""

    def __init__(self) -> None:
        self.values: array[int] = array("q")
        self._final = bytearray()
        self._found: dict[int, array[int]] = {}  # writer: the offset of each number

    def merge(self, offset: int, packed: int, count: int, *, final: bool) -> Iterator[tuple[int, int, int]]:
        """Add a run of consecutive values; yields (offset, what was there, what came) where they differ.

        What a final read has seen stays: it is what all else is compared with.
        """
        end = offset + count
        if len(self.values) < end:
            missing = end - len(self.values)
            self.values.extend([_NOTHING] * missing)
            self._final.extend(bytes(missing))
        came = array("q", range(packed, packed + count))
        if self.values[offset:end] != came:
            for at, now in enumerate(came, offset):
                was = self.values[at]
                if was not in (_NOTHING, now):
                    yield at, was, now
                if final or was == _NOTHING:
                    self.values[at] = now
        if final:
            self._final[offset:end] = b"\1" * count

    def is_final(self, offset: int) -> bool:
        return offset < len(self._final) and bool(self._final[offset])

    def holds(self, offset: int) -> bool:
        return offset < len(self.values) and self.values[offset] != _NOTHING

    def has(self, offset: int, writer: int, number: int) -> bool:
        return offset < len(self.values) and self.values[offset] == writer << _NUMBER_BITS | number

    def find(self, writer: int, number: int, offset: int) -> bool:
        """Note where a value lies; False where it was found before."""
        found = self._found.setdefault(writer, array("q"))
        if len(found) <= number:
            found.extend([_NOTHING] * (number + 1 - len(found)))
        if found[number] != _NOTHING:
            return False
        found[number] = offset
        return True

    def offset_of(self, writer: int, number: int) -> int:
        found = self._found.get(writer)
        return found[number] if found is not None and number < len(found) else _NOTHING


def check(operations: Iterable[Operation]) -> Findings:
    """The findings of a whole history."""
    checker = Checker()
    for operation in operations:
        checker.on_operation(operation)
    return checker.findings()
