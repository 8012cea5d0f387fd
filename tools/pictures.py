"""The imports of each package as a picture in docs/design/: the layers of `.importlinter`, and what imports what.

From the graph that import-linter judges by. A box is a module or a folder of modules, a row is a layer, and all lines
go down: the more imports, the stronger. `--check` writes nothing and fails where a picture is stale.
"""

from __future__ import annotations

import configparser
import re
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import grimp

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / "docs/design/pictures"

_CHARACTER, _PADDING, _GAP, _BOX, _ROW = 7.2, 18, 16, 26, 74  # pixels
_STRONG: Final = 8
"""Imports between two boxes that make a line as strong as any."""


@dataclass(frozen=True, slots=True)
class Picture:
    """`rows` from top to bottom, each with the full names of its boxes; `imports` counts those between two boxes."""

    title: str
    rows: list[list[str]]
    imports: Counter[tuple[str, str]]

    def svg(self) -> str:
        places, width = self._places()
        height = len(self.rows) * _ROW + _BOX
        lines = [_line(places[a], places[b], count) for (a, b), count in sorted(self.imports.items())]
        boxes = [_box(name.rpartition(".")[2], *place) for name, place in places.items()]
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
            f'height="{height}" font-family="monospace" font-size="12">'
        )
        ground = '<rect width="100%" height="100%" fill="#fff"/>'
        return "\n".join([head, f"<title>{self.title}</title>", ground, *lines, *boxes, "</svg>", ""])

    def _places(self) -> tuple[dict[str, tuple[float, float, float]], float]:
        """Return the left edge, the top and the width of each box, and the total width."""
        widths = {name: len(name.rpartition(".")[2]) * _CHARACTER + _PADDING for row in self.rows for name in row}
        rows = [sum(widths[name] for name in row) + _GAP * (len(row) + 1) for row in self.rows]
        places: dict[str, tuple[float, float, float]] = {}
        for number, (row, taken) in enumerate(zip(self.rows, rows, strict=True)):
            left = (max(rows) - taken) / 2 + _GAP
            for name in row:
                places[name] = (left, number * _ROW + _BOX / 2, widths[name])
                left += widths[name] + _GAP
        return places, max(rows)


def _box(text: str, left: float, top: float, width: float) -> str:
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{_BOX}" rx="4" fill="#eef3f8" '
        f'stroke="#456"/><text x="{left + width / 2:.1f}" y="{top + 17:.1f}" text-anchor="middle">{text}</text>'
    )


def _line(above: tuple[float, float, float], below: tuple[float, float, float], count: int) -> str:
    x1, y1, x2, y2 = above[0] + above[2] / 2, above[1] + _BOX, below[0] + below[2] / 2, below[1]
    bend = (y2 - y1) / 2
    strength = 0.12 + 0.5 * min(count, _STRONG) / _STRONG
    path = f"M{x1:.1f} {y1:.1f} C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    return f'<path d="{path}" fill="none" stroke="#27517a" stroke-opacity="{strength:.2f}"/>'


def pictures() -> dict[Path, str]:
    """Every file, and what is to be in it: one for each contract of layers."""
    law = configparser.ConfigParser()
    law.read(ROOT / ".importlinter")
    graph = grimp.build_graph(*law["importlinter"]["root_packages"].split(), cache_dir=None)
    found = {}
    for section, contract in law.items():
        if contract.get("type") == "layers":
            picture = _picture(graph, contract["name"], contract.get("containers", ""), contract["layers"])
            found[FOLDER / f"{section.rpartition(':')[2]}.svg"] = picture.svg()
    return found


def _picture(graph: grimp.ImportGraph, title: str, container: str, layers: str) -> Picture:
    prefix = f"{container.strip()}." if container.strip() else ""
    rows = [[prefix + name for name in re.split(r"\s*[|:]\s*", row.strip())] for row in layers.strip().splitlines()]
    floor = {name: number for number, row in enumerate(rows) for name in row}
    inside = {box: {box} | graph.find_descendants(box) for box in floor}
    imports: Counter[tuple[str, str]] = Counter()
    for a, b in product(floor, floor):
        if floor[a] < floor[b] and (  # what the law lets go up, `ottla.testing`, is not drawn
            count := sum(len(graph.find_modules_directly_imported_by(m) & inside[b]) for m in sorted(inside[a]))
        ):
            imports[a, b] = count
    return Picture(title, rows, imports)


def main(arguments: list[str]) -> int:
    drawn = pictures()
    there = set(FOLDER.glob("*.svg"))
    stale = sorted(
        {path for path, svg in drawn.items() if path not in there or path.read_text() != svg} | there - {*drawn}
    )
    if "--check" in arguments:
        if stale:
            print(f"{', '.join(path.name for path in stale)}: stale; run `make pictures`", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in there - {*drawn}:
        path.unlink()
    for path, svg in drawn.items():
        path.write_text(svg)
    print(f"{len(drawn)} pictures in {FOLDER.relative_to(ROOT)}, {len(stale)} of them new")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
