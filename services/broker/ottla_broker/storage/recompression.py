"""A produced batch in the codec of its topic (compression.type, KIP-390). Pure.

The records keep their bytes. In the header, the codec's bits, the length and the CRC are new.
"""

from __future__ import annotations

from ottla_core.records.batch import CODEC_MASK, BatchHeader, Buffer, framed
from ottla_core.records.compression import Codec, Compression, compress, output_limit


def new_compression(header: BatchHeader, wanted: Compression | None) -> Compression | None:
    """Return what `wanted` of the topic changes in a batch: nothing if the batch has the codec, at any level."""
    return None if wanted is None or header.codec == wanted.codec else wanted


def recompressed(header: BatchHeader, records: Buffer, compression: Compression) -> bytes | None:
    """Return the batch of `header` with its `records`, which have no codec, compressed anew.

    Return None if readers would take that for a bomb (I44).
    """
    payload = compress(compression.codec, records, compression.level)
    if compression.codec != Codec.NONE and len(records) > output_limit(len(payload)):
        return None
    return framed(header._replace(attributes=header.attributes & ~CODEC_MASK | compression.codec), payload)
