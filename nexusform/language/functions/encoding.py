"""Functions that encode and decode text: JSON, YAML, CSV, base64, URLs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from nexusform.language.functions.base64_text import decode_base64, encode_base64
from nexusform.language.functions.csv_text import parse_csv
from nexusform.language.functions.function import (
    Example,
    Function,
    FunctionProblem,
    Parameter,
    anything,
    plain_function,
)
from nexusform.language.functions.json_text import clean_text, json_text, parse_json
from nexusform.language.functions.text_encodings import decode_text, encode_text
from nexusform.language.functions.yaml_text import parse_yaml, yaml_text
from nexusform.value_types import DYNAMIC, STRING, PrimitiveType
from nexusform.values import UNKNOWN, Value

LARGEST_UNPACKED: Final = 64 * 1024 * 1024


def utf8_text(data: bytes, what: str) -> str:
    """Bytes as text. Raises FunctionProblem when they are not UTF-8."""
    try:
        return clean_text(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise FunctionProblem(f"{what} is not valid UTF-8") from None


def _decode_base64_text(text: str) -> str:
    return utf8_text(decode_base64(text), "the result of decoding the provided string")


def _gzip(text: str) -> str:
    import gzip

    return encode_base64(gzip.compress(text.encode(), mtime=0))


def _gunzip(text: str) -> str:
    import zlib

    packed = decode_base64(text)
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(packed, LARGEST_UNPACKED)
    except zlib.error as problem:
        raise FunctionProblem(f"failed to decompress bytes: {problem}", 0) from None
    if unpacker.unconsumed_tail:
        raise FunctionProblem(f"the result has more than {LARGEST_UNPACKED} bytes", 0)
    if not unpacker.eof:
        raise FunctionProblem("failed to decompress bytes: the data ends too early", 0)
    return utf8_text(data, "the result of decompressing the provided string")


def _quote_url(text: str) -> str:
    from urllib.parse import quote_plus

    return quote_plus(text, safe="~")


_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")


def _unquote_url(text: str) -> str:
    from urllib.parse import unquote_to_bytes

    bad = _BAD_ESCAPE.search(text)
    if bad is not None:
        raise FunctionProblem(f'invalid URL escape "{text[bad.start() : bad.start() + 3]}"', 0)
    return utf8_text(unquote_to_bytes(text.replace("+", " ")), "the result of decoding the provided string")


def _encode_json(value: Value) -> Value:
    return Value(STRING, json_text(value) if value.is_wholly_known else UNKNOWN)


def _encode_yaml(value: Value) -> Value:
    return Value(STRING, yaml_text(value) if value.is_wholly_known else UNKNOWN)


def _text_function(
    name: str,
    description: str,
    compute: Callable[..., str],
    parameters: Sequence[tuple[str, PrimitiveType, str]],
    *examples: tuple[str, str],
) -> Function:
    return plain_function(name, description, parameters, returns=STRING, compute=compute, examples=examples)


_TEXT: Final = [("str", STRING, "the text")]
_ENCODED: Final = ("string", STRING, "the text")
_ENCODING: Final = ("encoding", STRING, "an IANA name, for example UTF-16LE")

FUNCTIONS: Final = (
    _text_function(
        "base64decode",
        "The text that base64 stands for.",
        _decode_base64_text,
        _TEXT,
        ('base64decode("SGVsbG8=")', '"Hello"'),
    ),
    _text_function(
        "base64encode",
        "The text's UTF-8 bytes in base64.",
        lambda text: encode_base64(text.encode()),
        _TEXT,
        ('base64encode("Hello")', '"SGVsbG8="'),
    ),
    _text_function(
        "base64gunzip",
        "The text that base64 of gzip stands for.",
        _gunzip,
        _TEXT,
        ('base64gunzip(base64gzip("Hello"))', '"Hello"'),
    ),
    _text_function(
        "base64gzip",
        "The text's UTF-8 bytes compressed with gzip, in base64.",
        _gzip,
        _TEXT,
        ('base64gunzip(base64gzip("Hello"))', '"Hello"'),
    ),
    Function(
        "csvdecode",
        "The rows of a CSV text as a list of objects, named by its first row.",
        (Parameter("str", STRING, "the text"),),
        DYNAMIC,
        lambda text: parse_csv(text.raw),
        (Example('csvdecode("a,b\\n1,2")[0].b', '"2"'),),
    ),
    Function(
        "jsondecode",
        "The value that a JSON text stands for.",
        (Parameter("str", STRING, "the text"),),
        DYNAMIC,
        lambda text: parse_json(text.raw),
        (Example('jsondecode("{\\"hello\\": [1]}")', "{ hello = [1] }"),),
        may_be_null=True,
    ),
    Function(
        "jsonencode",
        "The value as JSON text.",
        (anything("val", "a value"),),
        STRING,
        _encode_json,
        (Example('jsonencode({ hello = "world" })', '"{\\"hello\\":\\"world\\"}"'),),
    ),
    _text_function(
        "textdecodebase64",
        "The text that base64 of another character encoding stands for.",
        decode_text,
        [("source", STRING, "base64"), _ENCODING],
        ('textdecodebase64("SABlAGwAbABvAA==", "UTF-16LE")', '"Hello"'),
    ),
    _text_function(
        "textencodebase64",
        "The text in another character encoding, in base64.",
        encode_text,
        [_ENCODED, _ENCODING],
        ('textencodebase64("Hello", "UTF-16LE")', '"SABlAGwAbABvAA=="'),
    ),
    _text_function(
        "urldecode",
        "The text with percent escapes and plus signs read.",
        _unquote_url,
        _TEXT,
        ('urldecode("Hello+World%21")', '"Hello World!"'),
    ),
    _text_function(
        "urlencode",
        "The text with percent escapes, as it may stand in the query of a URL.",
        _quote_url,
        _TEXT,
        ('urlencode("Hello World!")', '"Hello+World%21"'),
    ),
    Function(
        "yamldecode",
        "The value that a YAML text of one document stands for.",
        (Parameter("src", STRING, "the text"),),
        DYNAMIC,
        lambda text: parse_yaml(text.raw),
        (Example('yamldecode("a: [1, yes]")', "{ a = [1, true] }"),),
        may_be_null=True,
    ),
    Function(
        "yamlencode",
        "The value as YAML text.",
        (anything("value", "a value"),),
        STRING,
        _encode_yaml,
        (Example('yamlencode({ a = ["b"] })', '"\\"a\\":\\n- \\"b\\"\\n"'),),
    ),
)
