"""Draw a sample of the sentences that users read: pages, help, messages, metrics and public docstrings.

A reader marks what is odd or unclear in the sample. `make prose SEED=7` prints the sentences with their places; the
last line is one JSON object. A run with the same seed on the same tree draws the same sentences.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer

import ottla
import ottla.aio
import ottla.testing
from ottla_cli.lazy import load
from ottla_cli.main import app

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "deploy/README.md",
    "docs/*.md",
    "docs/use/*.md",
    "docs/operate/*.md",
)
NOT_FOR_USERS: Final = (
    "docs/rules.md",
    "docs/features.md",
    "docs/regressions.md",
    "docs/invariants.md",
    "docs/kafka-apis.md",
    "docs/glossary.md",
    "docs/reading-the-code.md",
)
PRODUCT: Final = ("cli", "core", "examples/demo", "sdk", "services", "spark", "stack")
_METRICS: Final = ("counter", "gauge", "histogram", "summary")
_LOGS: Final = ("debug", "info", "warning", "error", "exception", "critical")
_LEAST_WORDS: Final = 3


class Sentence(NamedTuple):
    kind: str
    place: str
    text: str


def sentences(text: str) -> Iterator[str]:
    """Split a paragraph. What is hardly more than code in backticks is left out."""
    for sentence in re.split(r"(?<=[.!?])\s+(?=[\"'`*A-Z0-9])", " ".join(text.split())):
        if len(re.findall(r"\b[a-z]+\b", re.sub(r"`.*?`", "", sentence))) >= _LEAST_WORDS:
            yield sentence


def of_page(markdown: str) -> Iterator[str]:
    """Yield the sentences of paragraphs and lists, and the cells of tables, without code blocks and headings."""
    without_code = re.sub(r"^```.*?^```$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", without_code):
        if block.lstrip().startswith(("|", "#", "    ")):
            cells = (cell for line in block.splitlines() if line.startswith("|") for cell in line.split("|"))
            yield from (text for cell in cells for text in sentences(cell))
        else:
            yield from sentences(re.sub(r"^\s*(?:[-*]|\d+\.) ", "", block))


def pages() -> Iterator[Sentence]:
    for path in sorted(found for pattern in PAGES for found in ROOT.glob(pattern)):
        if (name := str(path.relative_to(ROOT))) not in NOT_FOR_USERS:
            yield from (Sentence("page", name, text) for text in of_page(path.read_text()))


def helps() -> Iterator[Sentence]:
    """Yield what `ottla … --help` says of commands, arguments and options."""
    root: Any = typer.main.get_command(app)
    commands = [("ottla", root), *((f"ottla {name}", load(name)) for name in root.commands)]
    while commands:
        name, command = commands.pop()
        said = [command.help or "", *(getattr(parameter, "help", None) or "" for parameter in command.params)]
        yield from (Sentence("help", name, text) for words in said for text in sentences(words))
        if command is not root:
            commands += [(f"{name} {child}", each) for child, each in getattr(command, "commands", {}).items()]


def messages() -> Iterator[Sentence]:
    """Yield texts of errors, hints and log lines, and the helps of metrics."""
    for path in sorted(found for folder in PRODUCT for found in (ROOT / folder).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                for kind, value in texts_of(node):
                    yield from (Sentence(kind, f"{name}:{node.lineno}", text) for text in sentences(value))


def texts_of(call: ast.Call) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) for each text of a call that a user reads."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    texts = [text for argument in call.args if (text := literal(argument))]
    if function in _METRICS and len(texts) > 1:
        yield "metric", texts[1]
    elif function in _LOGS and texts:
        yield "log line", texts[0]
    elif re.search("error", function, re.IGNORECASE) and texts:
        yield "error", texts[-1]
    for keyword in call.keywords:
        if keyword.arg == "hint" and (text := literal(keyword.value)):
            yield "hint", text


def literal(node: ast.expr) -> str:
    """Return the text of a string, with … for what an f-string fills in."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in values)
        case _:
            return ""


def docstrings() -> Iterator[Sentence]:
    """Yield what `help()` says of the public classes and functions of the SDK."""
    for module in (ottla, ottla.aio, ottla.testing):
        for name in module.__all__:
            value = getattr(module, name)
            parts = [(f"{module.__name__}.{name}", value)]
            if inspect.isclass(value):
                own = (each for each in vars(value).items() if not each[0].startswith("_"))
                parts += [(f"{module.__name__}.{name}.{part}", member) for part, member in own]
            for place, each in parts:
                said = inspect.getdoc(each) if callable(each) or isinstance(each, property) else None
                blocks = re.split(r"\n\s*\n", said or "")
                yield from (Sentence("docstring", place, text) for block in blocks for text in sentences(block))


def everything() -> list[Sentence]:
    return [*pages(), *helps(), *messages(), *docstrings()]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="draws the same sentences again; else one is drawn")
    parser.add_argument("--count", type=int, default=200, help="how many sentences")
    given = parser.parse_args(arguments)
    seed = given.seed or random.SystemRandom().randrange(1, 2**31)
    found = everything()
    drawn = random.Random(seed).sample(  # noqa: S311 - a sample, not a secret
        found, min(given.count, len(found))
    )
    for number, (kind, place, text) in enumerate(drawn, 1):
        print(f"{number:3} [{kind}] {place}\n    {text}")
    of_kinds = dict(Counter(sentence.kind for sentence in found))
    print(json.dumps({"seed": seed, "drawn": len(drawn), "sentences": len(found), "kinds": of_kinds}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
