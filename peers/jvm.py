"""What Java programs are started with that live for minutes at most: not long enough for optimised code to pay."""

from __future__ import annotations

from typing import Final

SHORT_LIVED: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
