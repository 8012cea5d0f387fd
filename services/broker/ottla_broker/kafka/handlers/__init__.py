"""One file an API of the Kafka protocol: each head names its versions, and what differs between them."""
