"""The head of each handler names its API's key and versions, as the table has them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from ottla_broker.kafka import handlers
from ottla_broker.kafka.apis import APIS, PRIVATE

HANDLERS = Path(next(iter(handlers.__path__)))
SERVED = {**APIS, PRIVATE.key: PRIVATE}
HEAD = re.compile(r"(\w+) \(key (\d+)\), versions? (\d+)(?: to (\d+))?")


def test_the_heads_of_the_handlers_are_those_of_the_table() -> None:
    heads = {path.stem: ast.get_docstring(ast.parse(path.read_text())) or "" for path in HANDLERS.glob("[!_]*.py")}
    named = {
        (int(key), name, int(first), int(last or first))
        for head in heads.values()
        for name, key, first, last in HEAD.findall(head.partition("\n")[0])
    }
    assert named == {(api.key, api.name, api.min_version, api.max_version) for api in SERVED.values()}
    assert all(HEAD.match(head) for head in heads.values())


def test_no_head_speaks_of_a_version_that_is_not_served() -> None:
    for path in HANDLERS.glob("[!_]*.py"):
        head = ast.get_docstring(ast.parse(path.read_text())) or ""
        last = max(SERVED[int(key)].max_version for _, key, _, _ in HEAD.findall(head))
        assert all(int(version) <= last for version in re.findall(r"\bv(\d+)\b", head)), path.name
