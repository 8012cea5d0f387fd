"""A structured fuzzer of the Kafka listener: every API in every version, against a broker as a process of its own."""
