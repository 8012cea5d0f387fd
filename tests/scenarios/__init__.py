"""Stories of replication, told in commands: one partition, brokers and a controller, and nothing happens by itself.

Each `*.txt` here is a story: comments, commands, and below `----` what they came to, which is the golden output. All of
a broker and of a controller is the product's, but for the wires, the timers and etcd: a fetch, a tick, the delivery of
metadata happen when the story says so (`world`). So a story tells one order of events, and the same one every time.

`python -m tests.scenarios NAME` tells one; `--rewrite` writes down what it comes to now. In the manner of etcd-raft's
interaction tests. The commands are in `commands`.
"""
