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
        "config-without-a-word",
        "A topic was created with a config that nothing acts on, and nobody said so",
        Edit(
            "sdk/ottla/admin/topics.py",
            '        warn(f"topic {name}", created.warnings)\n',
            "",
        ),
    ),
    Story(
        "nothing-to-draw-a-dashboard-from",
        "A broker had no traffic by topic and no latency of Kafka's requests, and no service what its process takes",
        Edit("services/broker/ottla_broker/metrics.py", "    add_topic_tables(metrics, replicas)\n", ""),
    ),
    Story(
        "header-of-up-doubled-by-ctrl-c",
        "Ctrl-C of `ottla up`: the terminal's ^C broke the table's last line, and its header stood there twice",
        Edit(
            "stack/ottla_stack/commands.py",
            'return Group(stack_table(supervisor.state()), "")',
            "return Group(stack_table(supervisor.state()))",
        ),
    ),
    Story(
        "help-in-raw-markdown",
        "`ottla consume --help` showed the sources' Markdown tables as they are",
        Edit("sdk/ottla/cli/commands/consume.py", '_in_columns(text) if text.startswith("| ") else text', "text"),
    ),
    Story(
        "rm-advises-to-create",
        "`ottla topic rm x`: there is no x; create it",
        Edit(
            "sdk/ottla/cli/commands/topic.py",
            "topics = _described(admin, existing)",
            "topics = admin.topics.describe(*existing)",
        ),
    ),
    Story(
        "names-broken-at-80-columns",
        "`ottla status` on a terminal of 80 columns broke the names of the processes in two",
        Edit("sdk/ottla/cli/output.py", "whole = number == 0 and", "whole = number < 0 and"),
    ),
    Story(
        "settings-only-in-the-sources",
        "What can be set was documented as `the fields of config.py`, some of them without a word",
        Edit(
            "services/broker/ottla_broker/config.py",
            "  # between writes of high watermarks and recovery points",
            "",
        ),
    ),
    Story(
        "calls-that-overtake-at-the-end-of-a-pause",
        "`ottla.testing`: a produce that came just as a pause ended was carried out before those that waited",
        Edit("stack/ottla_stack/faults.py", "not (self._queue.locked() or self._entered)", "not self._queue.locked()"),
    ),
)
