"""First contact: the command line, configs, metrics."""

from __future__ import annotations

from dataclasses import replace

from tests.regressions.injection import altered, constant, instead_of, skipped
from tests.regressions.story import Story


def _without_effect(name):
    """Take a config for one that nothing acts on."""
    return lambda table: {**table, name: replace(table[name], enforced=False)}


STORIES = (
    Story(
        "one-warning-repeated-for-ever",
        "A producer aimed at the Kafka port logged one long warning up to four times a second, for as long as it lived",
        constant("ottla.client.metadata_updater:_LOG_AGAIN_S", 0.0),
    ),
    Story(
        "slow-broker-that-ends-the-stack",
        "`ottla up` gave all services 60 s together: a broker that recovered its logs for longer was killed each time",
        constant("ottla_stack.supervisor:READY_LIMIT_S", 60.0),
    ),
    Story(
        "stack-that-runs-without-its-state",
        "`ottla down` said that nothing ran, and exited with 0, while a stack ran whose state.json was gone",
        skipped("ottla_stack.commands:is_locked", False),
    ),
    Story(
        "advice-that-stops-another-stack",
        "`ottla up --dir west` advised to stop it with `ottla down`, which stops the stack of the default directory",
        instead_of("ottla_stack.commands:_command", lambda original, name, directory: f"ottla {name}"),
    ),
    Story(
        "config-said-to-have-no-effect",
        "auto.create.topics.enable=false was answered with `no effect`, and topics were no longer created",
        altered("ottla_core.configs.config_table:ENFORCED", lambda names: names - {"auto.create.topics.enable"}),
        altered("ottla_core.configs.config_table:BROKER_CONFIGS", _without_effect("auto.create.topics.enable")),
    ),
    Story(
        "codec-of-the-topic-is-ignored",
        "A topic's compression.type was described as the codec on disk, but did not change what was stored",
        instead_of("ottla_broker.storage.recompression:new_compression", lambda original, header, wanted: None),
    ),
    Story(
        "config-without-a-word",
        "A topic was created with a config that nothing acts on, and nobody said so",
        skipped("ottla.admin.topics:warn"),
    ),
    Story(
        "nothing-to-draw-a-dashboard-from",
        "Brokers measured neither traffic by topic nor the latency of Kafka requests, and no service its own process",
        skipped("ottla_broker.metrics:add_topic_tables"),
    ),
    Story(
        "header-of-up-doubled-by-ctrl-c",
        "Ctrl-C of `ottla up`: the terminal's ^C broke the table's last line, and its header was printed twice",
        instead_of("ottla_stack.commands:Group", lambda original, *parts, **options: original(parts[0], **options)),
    ),
    Story(
        "help-in-raw-markdown",
        "`ottla consume --help` showed the Markdown tables of the sources unrendered",
        instead_of("ottla_cli.documentation:_in_columns", lambda original, table: table),
    ),
    Story(
        "rm-advises-to-create",
        "`ottla topic rm x` of an unknown topic advised to create it",
        instead_of(
            "ottla_cli.commands.topic:_described",
            lambda original, admin, existing: admin.topics.describe(*existing),
        ),
    ),
    Story(
        "names-broken-at-80-columns",
        "`ottla status` on a terminal of 80 columns broke the names of the processes in two",
        constant("ottla_cli.output:_WHOLE", -1),
    ),
    Story(
        "settings-only-in-the-sources",
        "The documentation of settings was `the fields of config.py`, and some of them had no word of explanation",
        skipped("tools.configuration:undescribed", []),
    ),
    Story(
        "calls-that-overtake-at-the-end-of-a-pause",
        "`ottla.testing`: a produce that came just as a pause ended was carried out before those that waited",
        instead_of("ottla_stack.faults:_Gate.is_clear", lambda original, self: not self._queue.locked()),
    ),
    Story(
        "ipv6-addresses-without-brackets",
        "No service could listen on an IPv6 address: hosts and ports were joined without brackets",
        instead_of("ottla_core.host_port:HostPort.__str__", lambda original, self: f"{self.host}:{self.port}"),
    ),
    Story(
        "stack-without-its-users-listeners",
        "`ottla up` took no Kafka listeners: its brokers refused them beside a kafka_port that no user had set",
        skipped("ottla_stack.user_listeners:read_user_listeners", ()),
    ),
)
