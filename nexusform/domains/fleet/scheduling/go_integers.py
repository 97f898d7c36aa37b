"""Whole numbers in texts, as read by a hub: Go's strconv.Atoi on 64 bits."""

import json
import re

from nexusform.kubernetes.quantity import MAX_INT64

_MAX_DIGITS = len(str(MAX_INT64))


def parse_go_integer(text: str) -> int | str:
    """Return the number of a text, or Go's error.

    A sign and any leading zeros are accepted, spaces are not.
    """
    error = f"strconv.Atoi: parsing {json.dumps(text, ensure_ascii=False)}"
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        return f"{error}: invalid syntax"
    # Check the number of digits first: int() raises ValueError for thousands of digits.
    if len(text.lstrip("+-0")) > _MAX_DIGITS or not -MAX_INT64 - 1 <= int(text) <= MAX_INT64:
        return f"{error}: value out of range"
    return int(text)
