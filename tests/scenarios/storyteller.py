"""From a story's text to its text as it comes out now."""

from __future__ import annotations

import re
from pathlib import Path

from tests.scenarios.commands import Interpreter
from tests.scenarios.consumers import ConsumerWorld
from tests.scenarios.script import told
from tests.scenarios.world import World


async def tell(text: str, directory: Path) -> str:
    """The story, told anew in an empty directory. Raises SyntaxError for what is no command."""
    if re.search(r"^coordinators ", text, re.MULTILINE):
        return await told(text, ConsumerWorld().run)
    world = World(directory)
    try:
        return await told(text, Interpreter(world).run)
    finally:
        await world.close()
