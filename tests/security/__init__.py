"""This package proves ottla's security: `make security` runs it.

Each request is tried at a real cluster and at Apache Kafka by users with different ACLs (`matrix`, `door`). Calls
between services are tried by each role (`calls`). Kafka's clients log in in each way, and go on while passwords,
certificates and brokers change (`clients`). Bytes that nobody should send come by the hundred thousand (`fuzz`).
Planted secrets are looked for in everything that a cluster writes (`leaks`). Attackers at one address must not hold up
a client at another (`burst`). Then mistakes are made in the product, and each has to be noticed (`mutants`).
"""
