"""Tests of the text form of addresses."""

import pytest

from nexusform.resources.address import AddressProblem, parse_address


@pytest.mark.parametrize(
    "text", ["nexus_rack.a", "nexus_rack.a[0]", 'module.m["x y"].nexus_rack.a', "data.nexus_rack.a"]
)
def test_address_equals_its_parsed_text(text: str) -> None:
    assert str(parse_address(text)) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "An empty text is not an address."),
        ("nexus_rack.a.", "a name must follow each dot"),
        ("nexus_rack.a.[0]", "a name must follow each dot"),
        (
            "nexus_rack.a[0",
            "an instance key is a number (18 digits) or a quoted string in brackets",
        ),
        ("nexus_rack.a[0].b", "unexpected text after the instance key"),
        ("nexus_rack", "expected TYPE.NAME"),
        ("module.a", "names a module"),
    ],
)
def test_invalid_address_is_rejected_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(AddressProblem) as caught:
        parse_address(text)
    assert reason in str(caught.value)
