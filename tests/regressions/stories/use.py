"""What a new user meets: the command line, configs, metrics."""

from __future__ import annotations

from tests.regressions.story import Edit, Story

STORIES = (
    Story(
        "config-said-to-have-no-effect",
        "auto.create.topics.enable=false was answered with `no effect`, and topics were no longer created",
        Edit("core/ottla_core/config_table.py", '        "auto.create.topics.enable",\n', ""),
    ),
    Story(
        "compacted-without-a-word",
        "A topic was created with cleanup.policy=compact, and nobody said that nothing is compacted",
        Edit(
            "sdk/ottla/topics.py",
            '        warn(f"topic {name}", created.warnings)\n',
            "",
        ),
    ),
    Story(
        "nothing-to-draw-a-dashboard-from",
        "A broker had no traffic by topic and no latency of Kafka's requests, and no service what its process takes",
        Edit("services/broker/ottla_broker/gauges.py", "    add_topic_tables(metrics, replicas)\n", ""),
    ),
)
