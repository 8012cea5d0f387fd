"""How a segment's end is judged, and how much of it is read for that."""

from __future__ import annotations

import itertools
from errno import EBADMSG
from pathlib import Path

import pytest
from produced import produced

from ottla_broker.storage import files
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.scan import is_torn, settled_batches
from ottla_core.records.batch import HEADER_SIZE

MEGABYTE = 1 << 20
LENGTH_AT = 8


def long_batch(size: int) -> bytes:
    """A batch with that many bytes behind its header, which says that it is much longer, as after a flipped bit."""
    header = bytearray(produced(0)[:HEADER_SIZE])
    header[LENGTH_AT] ^= 0x10
    return bytes(header) + b"v" * size


def written(path: Path, content: bytes) -> DataFile:
    path.write_bytes(content)
    return files.open_file(path)


def next_batch() -> bytes:
    return (1).to_bytes(8) + produced(1)[8:]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    sizes, read = list[int](), DataFile.read

    def noted(file: DataFile, position: int, size: int) -> bytes:
        sizes.append(size)
        return read(file, position, size)

    monkeypatch.setattr(DataFile, "read", noted)
    return sizes


@pytest.mark.rule(58)
@pytest.mark.parametrize("end", [MEGABYTE + shift for shift in (-70, -1, 0, 1, 7, 8, 60, 61, 62, 500_000)])
def test_a_batch_that_follows_is_found_wherever_it_begins(tmp_path: Path, end: int, reads: list[int]) -> None:
    """The pieces in which it is looked for begin behind the first header."""
    damaged = long_batch(end)
    follows = next_batch()
    for rest in (follows, follows[:HEADER_SIZE], follows[:30]):
        content = damaged + rest
        assert not is_torn(written(tmp_path / "log", content), 0, len(content))
    assert max(reads) <= MEGABYTE + HEADER_SIZE
    assert is_torn(written(tmp_path / "log", damaged), 0, len(damaged))


@pytest.mark.rule(58)
def test_bytes_that_look_like_the_next_offset_do_not_end_the_search(tmp_path: Path) -> None:
    content = long_batch(100) + (1).to_bytes(8) + bytes(100) + next_batch()
    assert not is_torn(written(tmp_path / "log", content), 0, len(content))


@pytest.mark.rule(58)
@pytest.mark.parametrize("at", [LENGTH_AT + 8, 0], ids=["no batch", "whole"])
def test_a_batch_that_is_no_torn_append_costs_the_read_of_its_header(tmp_path: Path, at: int, reads: list[int]) -> None:
    """It has another magic, or it fits into the file and its CRC is wrong."""
    content = bytearray(produced(0, value=b"v" * 5 * MEGABYTE))
    if at:
        content[at] = 7
    assert not is_torn(written(tmp_path / "log", bytes(content)), 0, len(content))
    assert reads == [HEADER_SIZE]


def test_a_few_bytes_are_torn(tmp_path: Path) -> None:
    content = next_batch()[: HEADER_SIZE - 1]
    file = written(tmp_path / "log", content)
    assert [is_torn(file, 0, size) for size in (0, 1, len(content))] == [True, True, True]


def flipping(monkeypatch: pytest.MonkeyPatch, number: int, position: int, mask: int) -> None:
    """Flip a bit of the file in one read of it, the one with this number."""
    read, numbers = DataFile.read, itertools.count()

    def flipped(file: DataFile, begin: int, size: int) -> bytes:
        data = bytearray(read(file, begin, size))
        if next(numbers) == number and 0 <= position - begin < len(data):
            data[position - begin] ^= mask
        return bytes(data)

    monkeypatch.setattr(DataFile, "read", flipped)


@pytest.mark.rule(58)
@pytest.mark.parametrize("number", range(3))
def test_a_bit_that_is_flipped_in_one_read_changes_no_settled_batch(tmp_path: Path, number: int) -> None:
    content = b"".join(sequence.to_bytes(8) + produced(sequence)[8:] for sequence in range(4))
    file = written(tmp_path / "log", content)
    expected = list(settled_batches(file, 0, len(content)))
    assert len(expected) == 4
    begin, end = expected[1][0], expected[2][0]
    # No CRC covers the base offset and the leader epoch.
    for position in (*range(begin + 8, begin + 12), *range(begin + 16, end)):
        for bit in range(8):
            with pytest.MonkeyPatch.context() as patched:
                flipping(patched, number, position, 1 << bit)
                assert list(settled_batches(file, 0, len(content))) == expected


@pytest.mark.story("header-and-crc-came-from-two-reads")
@pytest.mark.rule(58)
def test_a_header_with_a_flipped_bit_does_not_pass_for_the_one_that_another_read_finds(tmp_path: Path) -> None:
    """The first read has a flipped bit in the records, so the header is read again, and that read has another one."""
    content = b"".join(sequence.to_bytes(8) + produced(sequence)[8:] for sequence in range(3))
    file = written(tmp_path / "log", content)
    expected = list(settled_batches(file, 0, len(content)))
    begin, end = expected[1][0], expected[2][0]
    for position in range(begin + 16, begin + HEADER_SIZE):
        with pytest.MonkeyPatch.context() as patched:
            flipping(patched, 1, position, 4)
            flipping(patched, 0, end - 1, 1)
            assert list(settled_batches(file, 0, len(content))) == expected


@pytest.mark.rule(58)
def test_a_batch_that_the_disk_has_damaged_is_settled_by_its_header(tmp_path: Path) -> None:
    batches = [sequence.to_bytes(8) + produced(sequence)[8:] for sequence in range(3)]
    damaged = batches[1][:-1] + bytes([batches[1][-1] ^ 1])
    content = batches[0] + damaged + batches[2]
    settled = list(settled_batches(written(tmp_path / "log", content), 0, len(content)))
    assert [header.base_offset for _, header in settled] == [0, 1, 2]


@pytest.mark.rule(58)
def test_batches_end_where_no_batch_can_be(tmp_path: Path) -> None:
    content = produced(0)
    for rest in (b"", b"\0" * 200, b"\xff" * 200, long_batch(10), content[:-1]):
        settled = list(settled_batches(written(tmp_path / "log", content + rest), 0, len(content + rest)))
        assert [at for at, _ in settled] == [0]


@pytest.mark.rule(58)
def test_a_batch_that_no_two_reads_return_alike_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / "log", produced(0))
    read, numbers = DataFile.read, itertools.count()

    def noisy(file: DataFile, begin: int, size: int) -> bytes:
        data = bytearray(read(file, begin, size))
        data[-1] ^= next(numbers) % 255 + 1
        return bytes(data)

    monkeypatch.setattr(DataFile, "read", noisy)
    with pytest.raises(OSError, match=r"reads of the batch at 0 of .* differ") as caught:
        list(settled_batches(file, 0, file.size_bytes()))
    assert caught.value.errno == EBADMSG


@pytest.mark.rule(58)
def test_batches_that_the_disk_has_damaged_are_read_a_few_times_each(tmp_path: Path, reads: list[int]) -> None:
    """Each one had a megabyte read behind it: 1,000 batches in 72 KB of a large segment took a gigabyte."""
    damaged = produced(0)[:-1] + bytes([produced(0)[-1] ^ 1])
    content = damaged * 1000
    file = written(tmp_path / "log", content)
    assert len(list(settled_batches(file, 0, len(content)))) == 1000
    assert sum(reads) < MEGABYTE + 5 * len(content)
