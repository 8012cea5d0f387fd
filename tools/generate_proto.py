"""Generate the Python code of the contracts beside their `.proto` files; `--check` only says whether it is fresh."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent / "proto"
CONTRACTS = sorted((ROOT / "ottla_proto").glob("*.proto"))


def generate(out: Path) -> None:
    arguments = ["protoc", f"-I{ROOT}", f"--python_out={out}", f"--pyi_out={out}", *map(str, CONTRACTS)]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc refused the contracts; its message is above")


def stale() -> list[str]:
    """The generated files that differ from what the contracts say."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = {p.relative_to(folder): p.read_text() for p in Path(folder).rglob("*_pb2.py*")}
    return [str(p) for p, text in sorted(fresh.items()) if not (ROOT / p).exists() or (ROOT / p).read_text() != text]


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if files := stale():
            raise SystemExit(f"stale generated code: {', '.join(files)}; run `make proto`")
    else:
        generate(ROOT)
