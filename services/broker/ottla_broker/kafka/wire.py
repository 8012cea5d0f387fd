"""Kafka's primitive types, for what is read by hand because it is hot: headers, Produce and Fetch (see `codec`)."""

from ottla_core.primitives import MalformedError, Reader, Writer

__all__ = ["MalformedError", "Reader", "Writer"]
