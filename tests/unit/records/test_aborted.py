"""What a reader of committed records leaves out, against brute force over whole logs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.fakes.scripted_log import ScriptedLog
from ottla_core.records.aborted import AbortedTransactions
from ottla_core.records.batch import TRANSACTIONAL, iter_headers
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder

PRODUCERS = 3


def append(log: ScriptedLog, value: bytes, producer: int, epoch: int, count: int) -> None:
    builder = new_builder(1000, pure=True)
    for _ in range(count):
        builder.append(1000, None, value, ())
    known = log.producers.get(producer)
    sequence = known.batches[-1][1] if known is not None and known.batches else 0
    if producer < 0:
        log.append(builder.seal())
        return
    log.append(
        builder.seal(producer_id=producer, producer_epoch=epoch, base_sequence=sequence, attributes=TRANSACTIONAL)
    )


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_exactly_the_records_of_committed_transactions_are_left(data: st.DataObject) -> None:
    """From any offset, with any number of transactions of one producer in a block, open ones kept out by the end."""
    log, epochs = ScriptedLog(), [0] * PRODUCERS
    kept: list[tuple[bytes, int]] = []  # value, offset
    pending: list[list[tuple[bytes, int]]] = [[] for _ in range(PRODUCERS)]
    for number in range(data.draw(st.integers(0, 40))):
        producer = data.draw(st.integers(-1, PRODUCERS - 1))
        value, offset, count = b"%d" % number, log.end, data.draw(st.integers(1, 3))
        records = [(value, offset + n) for n in range(count)]
        if producer < 0:
            append(log, value, -1, -1, count)
            kept += records
        elif data.draw(st.integers(0, 2)):
            log.open.setdefault(producer, offset)
            append(log, value, producer, epochs[producer], count)
            pending[producer] += records
        else:
            committed = data.draw(st.booleans())
            epochs[producer] += 1
            log.end_transaction(producer, epochs[producer], committed=committed)
            kept += pending[producer] if committed else []
            pending[producer] = []
    start = data.draw(st.integers(0, log.end))
    block = memoryview(log.read(start, 1 << 20, log.last_stable_offset))
    aborted = [(producer, first) for producer, first, marker in log.aborted if marker >= start]
    filtering = AbortedTransactions(data.draw(st.permutations(aborted)))
    found = []
    for at, header in iter_headers(block):
        batch = block[at : at + header.size_bytes]
        if not filtering.leaves_out(header) and not header.is_control:
            found += [(value, offset) for offset, _, _, value, _ in read_records(batch) if offset >= start]
    end = log.last_stable_offset
    assert found == sorted((r for r in kept if start <= r[1] < end), key=lambda record: record[1])
