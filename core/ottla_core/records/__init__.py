"""Kafka's record batch, version 2: header view, builder, reader, codecs, control records. Pure: bytes in and out."""
