"""Writes record_batches.json with kafka-python and the compression libraries that it uses; run it by hand, seldom.

The file is committed so that the tests compare with bytes that stay, not only with two libraries of the day.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import kafka.codec
import snappy
import zstandard
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

TARGET = Path(__file__).with_name("record_batches.json")
NOON = 1_700_000_000_000
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
HEADER_SIZE = 61

RECORDS: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = [
    (NOON + 5, b"key", b"value", []),
    (NOON, None, b"an earlier time, no key", []),
    (NOON + 9, b"no value", None, []),
    (NOON + 9, None, None, []),
    (NOON + 9, b"", b"", [("", b"")]),
    (
        NOON + 10_000_000,
        b"headers",
        b"1",
        [("one", b"1"), ("one", b"again"), ("null", None), ("größe", "üñï".encode())],
    ),
    *((NOON + n * 1000, b"carrier-%d" % (n % 3), b'{"flight": %d, "delay": null}' % n * 3, []) for n in range(12)),
]


def build(codec: int, *, transactional: bool = False, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, transactional, *producer, 1 << 20)
    for offset, (timestamp, key, value, headers) in enumerate(RECORDS):
        assert builder.append(offset, timestamp, key, value, headers)
    return bytes(builder.build())


def with_codec(**encoders: Any) -> bytes:
    """A batch whose records kafka-python compresses with another function of its libraries."""
    ((name, encode),) = encoders.items()
    import kafka.record.default_records as module

    kept = getattr(module, f"{name}_encode")
    setattr(module, f"{name}_encode", encode)
    try:
        return build(CODECS[name])
    finally:
        setattr(module, f"{name}_encode", kept)


def streamed_zstd(data: bytes) -> bytes:
    compressor = zstandard.ZstdCompressor().compressobj()
    return bytes(compressor.compress(data) + compressor.flush())


def main() -> None:
    batches = {name: build(codec) for name, codec in CODECS.items()}
    batches["snappy without xerial's framing (librdkafka)"] = with_codec(snappy=snappy.compress)
    batches["zstd of unannounced size (Java)"] = with_codec(zstd=streamed_zstd)
    batches["zstd, transactional"] = build(CODECS["zstd"], transactional=True, producer=(7000, 3, 12))
    for batch in batches.values():
        assert len(list(DefaultRecordBatch(batch))) == len(RECORDS)
    libraries = ("kafka-python", "lz4", "python-snappy", "zstandard")
    assert kafka.codec.has_lz4()
    content = {
        "made_with": {name: version(name) for name in libraries},
        "records": [
            {
                "timestamp": timestamp,
                "key": None if key is None else key.hex(),
                "value": None if value is None else value.hex(),
                "headers": [[name, None if data is None else data.hex()] for name, data in headers],
            }
            for timestamp, key, value, headers in RECORDS
        ],
        "batches": {name: batch.hex() for name, batch in batches.items()},
    }
    TARGET.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
