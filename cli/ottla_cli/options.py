"""The options and arguments that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from ottla_cli.completion import complete_topic

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.", autocompletion=complete_topic)]
Topics = Annotated[
    list[str], typer.Argument(metavar="TOPIC...", help="Names of topics.", autocompletion=complete_topic)
]
AnyTopics = Annotated[
    list[str] | None,
    typer.Argument(metavar="TOPIC", help="Names of topics; default: all.", autocompletion=complete_topic),
]
Internal = Annotated[bool, typer.Option("--internal", help="Include internal topics.")]
Numbers = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", metavar="N", help="Only this partition of the topic; may be repeated."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check the request and show what it would change, without changing anything.")
]
