"""This commit beside another one: a short list of figures, each measured of both in turn.

The programs that measure are this commit's. Where they need a module of `ottla_core` that an older commit lacks, this
tree lends it.
"""

from pathlib import Path

import ottla_core

ottla_core.__path__.append(str(Path(__file__).resolve().parents[2] / "core" / "ottla_core"))
