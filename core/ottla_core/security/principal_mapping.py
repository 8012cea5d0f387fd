"""Maps the distinguished names of client certificates to principals, by Kafka's ssl.principal.mapping.rules.

    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT

A rule is a pattern, a replacement, and perhaps L or U for lower or upper case. The first rule whose pattern matches the
whole name decides, and DEFAULT takes the name as it is. Backslashes escape slashes, and $1 is a group.

The patterns are RE2's, whose time is linear in the name. They are Java's too, except for lookarounds, back references
and possessive quantifiers. Where Kafka fails with each connection, as for a group that the pattern does not have, the
rule is refused at the start. A group's number that is too high is literal text, as in Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import re2

from ottla_core.errors import ErrorCode, OttlaError

DEFAULT_RULES: Final = "DEFAULT"

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER: Final = re.compile(_RULE)
_REFERENCE: Final = re.compile(r"\\(.)|\$(?:\{(\w+)\}|(\d+))|([^\\$]+)|(.)", re.DOTALL | re.ASCII)
_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern, and what replaces each of its matches: texts, and the numbers of groups. `case` is L, U or nothing."""

    pattern: Any
    replacement: tuple[str | int, ...]
    case: str

    def apply(self, name: str) -> str | None:
        """Return the mapped name, or None if the pattern does not match the whole name."""
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = "".join(self._replaced(name))
        return mapped.lower() if self.case == "L" else mapped.upper() if self.case == "U" else mapped

    def _replaced(self, name: str) -> Iterator[str]:
        """Yield the pieces of the name, with each match of the pattern replaced."""
        at = 0
        for match in self.pattern.finditer(name):
            yield name[at : match.start()]
            for part in self.replacement:
                yield part if isinstance(part, str) else match.group(part) or ""
            at = match.end()
        yield name[at:]


class PrincipalMapping:
    """The rules in their order. Raises INVALID_CONFIG for rules that Kafka would not accept."""

    def __init__(self, rules: str = DEFAULT_RULES) -> None:
        self._rules: Final = [rule for text in _SPLITTER.finditer(rules.strip()) for rule in _parsed(text[1])]

    def name(self, distinguished_name: str) -> str | None:
        """Return the name of the principal, or None if no rule matches."""
        for rule in self._rules:
            name = distinguished_name if rule is None else rule.apply(distinguished_name)
            if name is not None:
                return name
        return None


def _parsed(text: str) -> list[_Rule | None]:
    """Return the rule, None for DEFAULT, or nothing for an empty rule."""
    parsed = _PARSER.match(text)
    if parsed is None or parsed.end() != len(text):
        raise _invalid(text, "it is no rule", "write RULE:pattern/replacement/ with L or U behind it, or DEFAULT")
    default, pattern, replacement, case, _ = parsed.groups()
    if default is not None:
        return [None]
    if pattern is None:
        return []
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        cause = error.args[0].decode(errors="replace")
        raise _invalid(text, f"RE2 does not take its pattern ({cause})", "use RE2's syntax") from None
    parts = tuple(_parts(text, replacement, compiled.groups, compiled.groupindex))
    return [_Rule(compiled, parts, case)]


def _parts(rule: str, replacement: str, groups: int, names: Mapping[str, int]) -> Iterator[str | int]:
    """Yield the parts of a replacement in Java's syntax."""
    for reference in _REFERENCE.finditer(replacement):
        escaped, name, number, literal, stray = reference.groups()
        if name is not None:
            if name not in names:
                raise _invalid(rule, f"its pattern has no group {name!r}", "name a group of the pattern")
            yield names[name]
        elif number is not None:
            yield from _group(rule, number, groups)
        elif stray is not None:
            raise _invalid(rule, f"{stray!r} stands alone in its replacement", f"write \\{stray} for the character")
        else:
            yield literal if escaped is None else escaped


def _group(rule: str, digits: str, groups: int) -> Iterator[str | int]:
    """Yield the group whose number is the longest start of the digits that the pattern has, and then the other digits.

    If there is no such group, the reference is literal text.
    """
    if digits[0] != "0" and not groups:
        raise _invalid(rule, f"its pattern has no group ${digits}", f"write \\${digits} for the characters")
    if int(digits[0]) > groups:
        yield f"${digits}"
        return
    length = 1
    while length < len(digits) and int(digits[: length + 1]) <= groups:
        length += 1
    yield int(digits[:length])
    yield digits[length:]


def _invalid(rule: str, cause: str, hint: str) -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_CONFIG,
        f"ssl_principal_mapping_rules has {rule[:_SHOWN_CHARACTERS]!r}: {cause}",
        hint=hint,
    )
