"""Kills of Spark: a streaming query copies a topic, and its driver and executors are killed at every step it takes.

A query whose source and sink are the connector's, with each step announced (`steps`), runs in processes of its own
(`driver`). Whoever started it hears of each step before it is taken (`switchboard`) and kills what the schedule says
(`schedule`), then starts it again (`run`), until all rows are there. Then the copy is held against what was written
(`copy`). `make faults-spark` runs it.
"""
