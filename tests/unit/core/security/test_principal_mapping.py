"""ssl.principal.mapping.rules: what Kafka documents, and what its own SslPrincipalMapper answers to odd rules.

`tests/compat/test_principals_with_kafka.py` asks Kafka's class itself.
"""

from __future__ import annotations

import pytest

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.principal_mapping import PrincipalMapping

SERVICE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
ADMIN = "CN=Admin,OU=SME,O=mycp,L=Fulton,ST=MD,C=US"
LOWER = "cn=alice,ou=ops,dc=mycp,dc=com"
DOCUMENTED = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        (DOCUMENTED, SERVICE, "Duke"),
        (DOCUMENTED, ADMIN, "admin@sme"),
        (DOCUMENTED, LOWER, "alice"),
        (DOCUMENTED, "OU=nobody", "OU=nobody"),
        ("DEFAULT", SERVICE, SERVICE),
        ("DEFAULT, RULE:.*/never/", SERVICE, SERVICE),
        (r"RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U", LOWER, "ALICE@OPS"),
        (r"RULE:CN=(\w+)/$1/, DEFAULT", SERVICE, SERVICE),  # a pattern has to match the whole name
        (r"RULE:^CN=(.*),O=a\/b$/$1\/x/", "CN=c,O=a/b", "c/x"),
        (r"RULE:CN=(\w+).*/$1@$4/", SERVICE, "Duke@$4"),  # the pattern has no fourth group
        (r"RULE:CN=(\w+).*/$12/", SERVICE, "Duke2"),
        (rf"RULE:CN={'(.)' * 10}.*/$10$9/", "CN=abcdefghijk", "ji"),
        (r"RULE:CN=(\w+).*/a\$1/", SERVICE, "a$1"),
        (r"RULE:CN=(?<n>\w+).*/${n}/U", SERVICE, "DUKE"),
        (r"RULE:CN=\w+.*/<$0>/", LOWER.upper(), f"<{LOWER.upper()}>"),
        (r"RULE:(CN=x)?.*/[$1]/", "OU=a", "[][]"),  # Java replaces the empty match at the end, too
        (r"RULE:.*//", SERVICE, ""),
    ],
)
def test_a_name_is_mapped_as_in_kafka(rules: str, name: str, expected: str) -> None:
    assert PrincipalMapping(rules).name(name) == expected


@pytest.mark.parametrize("rules", ["", " ", ",", r"RULE:CN=x/x/", r"RULE:CN=x/x/ , RULE:CN=y/y/L"])
def test_a_name_that_no_rule_matches_has_none(rules: str) -> None:
    assert PrincipalMapping(rules).name(SERVICE) is None


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("RULE:a/b", "it is no rule"),
        ("RULE:a/b/X", "it is no rule"),
        ("RULE:a/b/LU", "it is no rule"),
        ("default", "it is no rule"),
        ("DEFAULT DEFAULT", "it is no rule"),
        ("DEFAULT, RULE:[/x/", "RE2 does not take its pattern (missing ]"),
        (r"RULE:(?=CN).*/x/", "RE2 does not take its pattern"),
        (r"RULE:CN=\w+.*/$1/", "its pattern has no group $1"),
        (r"RULE:CN=(\w+).*/${m}/", "its pattern has no group 'm'"),
        (r"RULE:CN=(\w+).*/$x/", "'$' stands alone in its replacement"),
    ],
)
def test_a_rule_that_could_not_be_applied_is_refused(rules: str, words: str) -> None:
    with pytest.raises(OttlaError) as refused:
        PrincipalMapping(rules)
    assert refused.value.code == ErrorCode.INVALID_CONFIG
    assert words in refused.value.message
    assert refused.value.hint


def test_a_long_name_takes_linear_time() -> None:
    assert PrincipalMapping("RULE:(a+)+b/x/").name("a" * 100_000) is None
