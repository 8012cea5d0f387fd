"""Brings a produced batch into the codec of its topic (compression.type, KIP-390). Pure.

The records keep their bytes. In the header, the codec's bits, the length and the CRC are new.
"""

from __future__ import annotations

from ottla_core.records.batch import CODEC_MASK, BatchHeader, Buffer, framed
from ottla_core.records.compression import Codec, Compression, compress, output_limit


def new_compression(header: BatchHeader, wanted: Compression | None) -> Compression | None:
    """Return the compression that a batch needs to be as its topic has `wanted` it, or None. A batch that has the
    codec needs none, at whatever level it was compressed."""
    return None if wanted is None or header.codec == wanted.codec else wanted


def recompressed(header: BatchHeader, records: Buffer, compression: Compression) -> bytes | None:
    """Return the batch of `header` with its decompressed `records` in another compression.

    Return None if readers would take the result for a bomb (I44).
    """
    payload = compress(compression.codec, records, compression.level)
    if compression.codec != Codec.NONE and len(records) > output_limit(len(payload)):
        return None
    return framed(header._replace(attributes=header.attributes & ~CODEC_MASK | compression.codec), payload)
