"""A tree to bytes and back, so that a parse can be kept between runs.

The form is JSON, never code: every node an array that begins with the name of its class, as the
annotations in syntax.py have it. What does not fit them is no tree.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Final

import msgspec
from msgspec import Struct

from nexusform.language.parser import SYNTAX_VERSION, collector_off
from nexusform.language.syntax import Body, JsonBody

_FORMAT: Final = f"nexusform-tree-2.{SYNTAX_VERSION}"


class _Kept(Struct, array_like=True):
    format: str
    body: Body | JsonBody


def encode(body: Body | JsonBody) -> bytes:
    """The bytes that stand for a tree; equal trees give equal bytes."""
    return msgspec.json.Encoder(decimal_format="number").encode(_Kept(_FORMAT, body))


def decode(data: bytes) -> Body | JsonBody | None:
    """The tree that `encode` wrote, or None when the bytes are no tree of this version."""
    try:
        with collector_off():
            kept = _decoder().decode(data)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError):
        # A damaged cache is as good as none: the text is parsed again.
        return None
    return kept.body if kept.format == _FORMAT else None


@cache
def _decoder() -> msgspec.json.Decoder[_Kept]:
    return msgspec.json.Decoder(_Kept, float_hook=Decimal)
