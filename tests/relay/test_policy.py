"""relay.policy: the grammar of allow rules and what they reach; default deny."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.policy import AllowRule, may_reach

GOOD = [
    "db.internal:5432",
    "localhost:1-65535",
    "*:443",
    "*:*",
    "10.0.0.0/8:22",
    "192.0.2.7:80-90",
    "[::1]:22",
    "[2001:db8::/32]:*",
    "under_score:1",
    "xn--bcher-kva.example:80",
]
BAD = {
    "": "no port",
    "db.internal": "no port",
    ":80": "no port",
    "db:": "port ''",
    "db:0": "port '0'",
    "db:65536": "port '65536'",
    "db:9-8": "port '9-8'",
    "db:0-5": "port '0-5'",
    "db:80-": "port '80-'",
    "db: 80": "port ' 80'",
    "db:٣": "port",
    "::1:22": "stands in brackets",
    "2001:db8::/32:22": "stands in brackets",
    "[10.0.0.1]:22": "stands in brackets",
    "[*]:22": "does not appear",
    "[db]:22": "does not appear",
    "10.0.0.1/8:22": "has host bits set",
    "db/8:22": "does not appear",
    "-db:22": "neither a host name",
    "d b:22": "neither a host name",
    "*.example:22": "neither a host name",
    "a..b:22": "neither a host name",
    "bücher.example:22": "neither a host name",
    "http:db:22": "neither a host name",
    "http://db:22": "does not appear",
    f"{'a.' * 127}ab:1": "neither a host name",
}


@pytest.mark.parametrize("text", GOOD)
def test_good_rules_are_shown_as_they_were_written(text: str) -> None:
    assert str(AllowRule.parse(text)) == text


@pytest.mark.parametrize(("text", "found"), BAD.items())
def test_bad_rules_say_what_was_found(text: str, found: str) -> None:
    with pytest.raises(ValueError, match="allow rule") as caught:
        AllowRule.parse(text)
    assert repr(text) in str(caught.value)
    assert found in str(caught.value)


@pytest.mark.parametrize(
    ("rule", "host", "port", "allowed"),
    [
        ("db:5432", "db", 5432, True),
        ("DB.Internal:5432", "db.INTERNAL", 5432, True),
        ("db:5432", "db", 5433, False),
        ("db:5432", "db.internal", 5432, False),
        ("db:5432", "db.", 5432, False),
        ("db:5000-6000", "db", 5000, True),
        ("db:5000-6000", "db", 6000, True),
        ("db:5000-6000", "db", 6001, False),
        ("db:*", "db", 1, True),
        ("*:80", "anything.at.all", 80, True),
        ("*:80", "2001:db8::1", 80, True),
        ("*:80", "db", 81, False),
        ("10.0.0.0/8:80", "10.255.0.1", 80, True),
        ("10.0.0.0/8:80", "11.0.0.1", 80, False),
        ("10.0.0.0/8:80", "::ffff:10.0.0.1", 80, True),
        ("10.0.0.0/8:80", "10.0.0.1.evil.example", 80, False),
        ("10.0.0.0/8:80", "localhost", 80, False),
        ("127.0.0.0/8:80", "127.1", 80, False),
        ("127.0.0.0/8:80", "0x7f000001", 80, False),
        ("127.0.0.0/8:80", "2130706433", 80, False),
        ("127.0.0.1:80", "127.0.0.1", 80, True),
        ("127.0.0.1:80", "127.0.0.2", 80, False),
        ("[::1]:80", "::1", 80, True),
        ("[::1]:80", "[::1]", 80, True),
        ("[::1]:80", "0:0:0:0:0:0:0:1", 80, True),
        ("[fe80::/10]:80", "fe80::1%eth0", 80, False),
        ("0.0.0.0/0:80", "::1", 80, False),
        ("[::/0]:80", "127.0.0.1", 80, False),
    ],
)
def test_what_a_rule_reaches(rule: str, host: str, port: int, allowed: bool) -> None:
    assert may_reach([AllowRule.parse(rule)], host, port).allowed is allowed


def test_nothing_is_allowed_by_default() -> None:
    verdict = may_reach([], "db", 5432)
    assert (verdict.allowed, verdict.reason) == (False, "db:5432 denied: the allow list is empty")


def test_the_reason_names_the_rule_or_how_many_there_were() -> None:
    rules = [AllowRule.parse("db:1"), AllowRule.parse("*:2")]
    assert may_reach(rules, "db", 2).reason == "allowed by the rule *:2"
    assert may_reach(rules, "db", 3).reason == "db:3 denied: none of 2 allow rules covers it"


@given(st.text(), st.integers())
def test_any_text_is_a_rule_or_a_value_error(text: str, port: int) -> None:
    try:
        rule = AllowRule.parse(text)
    except ValueError:
        return
    may_reach([rule], text, port)


@given(st.text(), st.integers(1, 65535))
def test_any_host_is_judged(host: str, port: int) -> None:
    may_reach([AllowRule.parse("10.0.0.0/8:*"), AllowRule.parse("db:*")], host, port)
