"""When two sites write to the same topic and copy it, a header says which way each record has come.

A copied record has a header with the clusters that it was copied from, in order. It is not copied to any of these
again. Nor is it copied to a cluster with a flow from one of these, which gets the record through that flow. So each
event travels once from site to site, as with prefixes (`TopicNames`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ottla_mirror.machines.flows import FlowSettings, MirrorSettings

HEADER: Final = "ottla-mirror-path"

Headers = Sequence[tuple[str, bytes | None]]


class LoopMarks:
    """These are the marks of one flow. `settings` has the other flows."""

    def __init__(self, flow: FlowSettings, settings: MirrorSettings) -> None:
        self._source: Final = flow.source
        self._ends: Final = {flow.target} | {
            cluster.alias
            for cluster in settings.clusters
            if cluster.alias != flow.source and settings.has_flow(cluster.alias, flow.target)
        }
        self._first: Final = (HEADER, flow.source.encode())

    def of_copy(self, headers: Headers) -> list[tuple[str, bytes | None]] | None:
        """Return the headers for the copy of a record with these `headers`, or None if it must not be copied."""
        paths = [value for name, value in headers if name == HEADER and value is not None]
        others = [header for header in headers if header[0] != HEADER]
        if not paths:
            return [*others, self._first]
        if not self._ends.isdisjoint(b",".join(paths).decode(errors="replace").split(",")):
            return None
        return [*others, (HEADER, paths[-1] + b"," + self._source.encode())]
