"""Stories of replication, told in commands: one partition, brokers and a controller, and nothing happens by itself.

Each `*.txt` here is a story: comments, commands, and below `----` what they came to, which is the golden output. All of
a broker (`node`) and of the `controller` is the product's, but for wires, timers and etcd: a fetch, a tick, a delivery
of metadata happens when the story says so. So a story is one order of events, and comes out the same every time.

`python -m tests.scenarios NAME` tells one; `--rewrite` writes down what it comes to now. In the manner of etcd-raft's
interaction tests. What may be told is listed in `commands`; in a story that begins with `coordinators`, in
`groups`.
"""
