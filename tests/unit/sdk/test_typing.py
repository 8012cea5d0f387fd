"""What a type checker infers for users: `value=Order` says what V is, in both worlds, and a contradiction is found."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

USER = """
from dataclasses import dataclass
import ottla, ottla.aio
@dataclass
class Order:
    id: int
def to_text(order: Order) -> bytes: return b""
def from_text(data: bytes) -> Order: return Order(1)
reveal_type(ottla.Producer(topic="t"))  # Producer[Any, Any]
reveal_type(ottla.Producer(topic="t", value=Order))  # Producer[Any, Order]
reveal_type(ottla.Producer(topic="t", key=str, value=to_text))  # Producer[str, Order]
reveal_type(ottla.Producer[str, Order](topic="t", value="json"))  # Producer[str, Order]
reveal_type(ottla.aio.Producer(topic="t", key=int, value=Order))  # Producer[int, Order]
reveal_type(ottla.Consumer("t"))  # Consumer[Any, Any]
reveal_type(ottla.Consumer("t", value=from_text))  # Consumer[Any, Order]
reveal_type(ottla.aio.Consumer[str, Order]("t"))  # Consumer[str, Order]
for record in ottla.Consumer("t", key=str, value=Order):
    reveal_type(record)  # Record[str, Order]
    reveal_type(record.value.id)  # int
for compacted in ottla.Consumer[str, Order | None]("t", key=str, value=Order):
    reveal_type(compacted.value)  # Order | None
app = ottla.App("a")
@app.on("t")
async def bill(order: Order, ctx: ottla.Context[str, Order]) -> None:
    reveal_type(ctx.key)  # str | None
    reveal_type(ctx.record.value)  # Order
    reveal_type((await ctx.send(order, topic="u")).offset)  # int
@app.on("t")
def note(order: Order, ctx: ottla.ThreadContext) -> None:
    reveal_type(ctx.send(order, topic="u").offset)  # int
reveal_type(app.on("t")(from_text))  # def (data: bytes) -> Order
app.on("t")(lambda a, b, c: None)  # error: type-var
def of_three(order: Order, ctx: ottla.Context, more: int) -> None: ...
app.on("t")(of_three)  # error: type-var
app.on("t")(5)  # error: type-var
ottla.Producer[str, Order](topic="t", value=int)  # error: arg-type
ottla.Producer(topic="t", value=Order).send(5)  # error: arg-type
ottla.aio.Producer(topic="t", key=str).send(5, key=5)  # error: arg-type
"""


def test_types_flow_from_the_arguments(tmp_path: Path) -> None:
    path = tmp_path / "user.py"
    path.write_text(USER)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    done = subprocess.run([*command, str(path)], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    said: dict[int, str] = {}
    for line in done.stdout.splitlines():
        number, kind, words = re.match(r".*?:(\d+): (\w+): (.*)", line).groups()  # type: ignore[union-attr]  # each line has the form
        code = re.search(r"\[([\w-]+)\]$", words)
        revealed = re.sub(r"\b\w+\.(?=\w)", "", words.partition('"')[2].rstrip('"'))
        said[int(number)] = f"error: {code[1]}" if kind == "error" and code else revealed
    expected = {number: line.partition("  # ")[2] for number, line in enumerate(USER.splitlines(), 1) if "  # " in line}
    assert said == expected, done.stdout + done.stderr
