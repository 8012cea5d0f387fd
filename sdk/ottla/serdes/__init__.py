"""Serializers and deserializers: values to bytes and bytes to values."""
