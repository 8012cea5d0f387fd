"""Each API of the Kafka protocol has one file. Its head names the versions, and what differs between them."""
