"""Which usernames and passwords SASLprep (RFC 4013) would change or reject.

SCRAM prescribes SASLprep, but Apache Kafka does not apply it: it uses the bytes of the UTF-8 text. Both agree on every
text that SASLprep leaves as it is. Clients take only such texts, and credentials are made only of such passwords,
because with any other text a login would succeed with one kind of client or broker and fail with another.
"""

from __future__ import annotations

import stringprep
import unicodedata
from collections.abc import Callable
from typing import Final

_PROHIBITED: Final[tuple[Callable[[str], bool], ...]] = (
    stringprep.in_table_a1,
    stringprep.in_table_c12,
    stringprep.in_table_c21_c22,
    stringprep.in_table_c3,
    stringprep.in_table_c4,
    stringprep.in_table_c5,
    stringprep.in_table_c6,
    stringprep.in_table_c7,
    stringprep.in_table_c8,
    stringprep.in_table_c9,
)


def is_prepared(text: str) -> bool:
    """Return whether SASLprep accepts the text and leaves it as it is."""
    if any(map(stringprep.in_table_b1, text)) or unicodedata.normalize("NFKC", text) != text:
        return False
    if any(prohibits(letter) for letter in text for prohibits in _PROHIBITED):
        return False
    if not any(map(stringprep.in_table_d1, text)):
        return True
    # Text with letters that are written from right to left begins and ends with them, and has no others (section 2.3).
    ends = stringprep.in_table_d1(text[0]) and stringprep.in_table_d1(text[-1])
    return ends and not any(map(stringprep.in_table_d2, text))


def is_text(text: str) -> bool:
    """Return whether the text can be written as UTF-8. Half a surrogate pair can't."""
    return not any(map(stringprep.in_table_c5, text))
