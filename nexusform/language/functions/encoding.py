"""Functions that encode and decode text: JSON, YAML, CSV, base64, URLs."""

import re
import struct
from typing import Final

from nexusform.language.functions.function import (
    Example,
    FixedProblem,
    Function,
    FunctionProblem,
    Parameter,
    build_any_parameter,
    build_plain_function,
)
from nexusform.language.functions.hashing import decode_base64, encode_base64
from nexusform.language.functions.json_encoding import (
    determine_json_type,
    get_json_prefix,
    normalize_stored_text,
    parse_json,
    render_json,
)
from nexusform.language.functions.yaml_encoding import parse_yaml, render_yaml
from nexusform.schemas.value_types import DYNAMIC, STRING, ListType, ObjectType
from nexusform.values.typed_value import UNKNOWN, Refinement, Value, get_refinement

MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024
_DECODED: Final = "the result of decoding the provided string"
_BAD_ESCAPE: Final = re.compile("%(?![0-9A-Fa-f]{2})")
_BAD_QUOTE: Final = 'extraneous or missing " in quoted-field'
_PLAIN_FIELD: Final = re.compile("[^,\n]*")


def decode_utf8(data: bytes, description: str) -> str:
    """Decode bytes as UTF-8.

    Raises FunctionProblem for invalid ones; `description` is the subject of its message.
    """
    try:
        return normalize_stored_text(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise FunctionProblem(f"{description} is not valid UTF-8") from None


def _compress_to_base64_gzip(text: str) -> str:
    """Compress a text by gzip, with the same bytes as Go's writer; return them as base64."""
    import zlib

    data = text.encode()
    # Without a header.
    packer = zlib.compressobj(wbits=-15)
    empty_last_block = b"\x01\x00\x00\xff\xff"
    packed = packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH) + empty_last_block
    # gzip without a time (zeros) and a system (ff).
    head = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    return encode_base64(head + packed + struct.pack("<II", zlib.crc32(data), len(data)))


def _decompress_from_base64_gzip(text: str) -> str:
    """Decode text from base64 and gzip.

    Raises FunctionProblem, also if the result is too large.
    """
    import zlib

    packed = decode_base64(text)
    # With a gzip header.
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(packed, MAX_UNPACKED_BYTES)
    except zlib.error as problem:
        raise FunctionProblem(f"failed to decompress bytes: {problem}", argument=0) from None
    if unpacker.unconsumed_tail:
        raise FunctionProblem(f"the result has more than {MAX_UNPACKED_BYTES} bytes", argument=0)
    if not unpacker.eof:
        # FixedProblem: a message without data, shown for sensitive arguments, too.
        raise FixedProblem("failed to decompress bytes: the data ends too early", argument=0)
    return decode_utf8(data, "the result of decompressing the provided string")


def _quote_url(text: str) -> str:
    from urllib.parse import quote_plus

    return quote_plus(text, safe="~")


def _unquote_url(text: str) -> str:
    """Decode percent escapes and plus signs.

    Raises FunctionProblem.
    """
    from urllib.parse import unquote_to_bytes

    invalid_escape = _BAD_ESCAPE.search(text)
    if invalid_escape is not None:
        start = invalid_escape.start()
        # The percent sign and two characters.
        escape = text[start : start + 3]
        raise FunctionProblem(f'invalid URL escape "{escape}"', argument=0)
    return decode_utf8(unquote_to_bytes(text.replace("+", " ")), _DECODED)


def _parse_csv(text: str) -> Value:
    """Parse one object for every row after the first, which has the column names.

    Raises FunctionProblem.
    """
    text = text.replace("\r\n", "\n")
    rows = _split_csv_rows(text)
    if not rows:
        raise FixedProblem("missing header line")
    # A row is an offset and fields.
    _, header = rows[0]
    known_names: set[str] = set()
    for name in header:
        if name in known_names:
            raise FunctionProblem(f'duplicate column name "{name}"')
        known_names.add(name)
    row_type = ObjectType.create(dict.fromkeys(header, STRING))
    objects = []
    for start, row in rows[1:]:
        if len(row) != len(header):
            raise _build_csv_error(text, start, "wrong number of fields")
        fields = dict(zip(header, row, strict=True))
        objects.append(Value(row_type, {k: Value(STRING, fields[k]) for k in sorted(fields)}))
    return Value(ListType(row_type), tuple(objects))


def _split_csv_rows(text: str) -> list[tuple[int, list[str]]]:
    """Return every row of CSV text: the offset of its start, and its fields.

    Empty lines are no rows.
    """
    rows: list[tuple[int, list[str]]] = []
    offset = 0
    while offset < len(text):
        # An empty line.
        if text[offset] == "\n":
            offset += 1
            continue
        start = offset
        row = []
        while True:
            field, offset = _parse_csv_field(text, offset)
            row.append(normalize_stored_text(field))
            # The end of the line or of the text.
            if not text.startswith(",", offset):
                break
            offset += 1
        rows.append((start, row))
        offset += 1
    return rows


def _parse_csv_field(text: str, offset: int) -> tuple[str, int]:
    """Parse the field from `offset` on.

    Return it and its end: the offset of a comma, a line end or the text's end.
    """
    start = offset
    if not text.startswith('"', start):
        match = _PLAIN_FIELD.match(text, start)
        assert match is not None, "the pattern matches an empty text, too"
        field = match[0]
        if '"' in field:
            raise _build_csv_error(text, start, 'bare " in non-quoted-field')
        return field, start + len(field)
    pieces: list[str] = []
    # After the opening quote.
    offset += 1
    while True:
        quote = text.find('"', offset)
        if quote < 0:
            raise _build_csv_error(text, start, _BAD_QUOTE)
        pieces.append(text[offset:quote])
        following = text[quote + 1 : quote + 2]
        if following == '"':
            # Two quotes stand for one.
            pieces.append('"')
            offset = quote + 2
        elif following in {"", ",", "\n"}:
            return "".join(pieces), quote + 1
        else:
            raise _build_csv_error(text, quote, _BAD_QUOTE)


def _build_csv_error(text: str, offset: int, reason: str) -> FunctionProblem:
    line = text.count("\n", 0, offset) + 1
    return FunctionProblem(f"CSV parse error on line {line}: {reason}")


# Python's codec, then the registry's name and its aliases: those of the encodings that Terraform
# has, too. IBM1047 is missing, for Python has no codec for it.
_ENCODINGS: Final = """
ascii       US-ASCII iso-ir-6 ANSI_X3.4-1968 ANSI_X3.4-1986 ISO_646.irv:1991 ISO646-US us IBM367 cp367 csASCII
iso8859_1   ISO-8859-1 ISO_8859-1:1987 iso-ir-100 ISO_8859-1 latin1 l1 IBM819 CP819 csISOLatin1
iso8859_2   ISO-8859-2 ISO_8859-2:1987 iso-ir-101 ISO_8859-2 latin2 l2 csISOLatin2
iso8859_3   ISO-8859-3 ISO_8859-3:1988 iso-ir-109 ISO_8859-3 latin3 l3 csISOLatin3
iso8859_4   ISO-8859-4 ISO_8859-4:1988 iso-ir-110 ISO_8859-4 latin4 l4 csISOLatin4
iso8859_5   ISO-8859-5 ISO_8859-5:1988 iso-ir-144 ISO_8859-5 cyrillic csISOLatinCyrillic
iso8859_6   ISO-8859-6 ISO_8859-6:1987 iso-ir-127 ISO_8859-6 ECMA-114 ASMO-708 arabic csISOLatinArabic
iso8859_6   ISO-8859-6-E ISO_8859-6-E csISO88596E ISO-8859-6-I ISO_8859-6-I csISO88596I
iso8859_7   ISO-8859-7 ISO_8859-7:1987 iso-ir-126 ISO_8859-7 ELOT_928 ECMA-118 greek greek8 csISOLatinGreek
iso8859_8   ISO-8859-8 ISO_8859-8:1988 iso-ir-138 ISO_8859-8 hebrew csISOLatinHebrew
iso8859_8   ISO-8859-8-E ISO_8859-8-E csISO88598E ISO-8859-8-I ISO_8859-8-I csISO88598I
iso8859_9   ISO-8859-9 ISO_8859-9:1989 iso-ir-148 ISO_8859-9 latin5 l5 csISOLatin5
iso8859_10  ISO-8859-10 iso-ir-157 l6 ISO_8859-10:1992 csISOLatin6 latin6
iso8859_13  ISO-8859-13 csISO885913
iso8859_14  ISO-8859-14 iso-ir-199 ISO_8859-14:1998 ISO_8859-14 latin8 iso-celtic l8 csISO885914
iso8859_15  ISO-8859-15 ISO_8859-15 Latin-9 csISO885915
iso8859_16  ISO-8859-16 iso-ir-226 ISO_8859-16:2001 ISO_8859-16 latin10 l10 csISO885916
cp037       IBM037 cp037 ebcdic-cp-us ebcdic-cp-ca ebcdic-cp-wt ebcdic-cp-nl csIBM037
cp437       IBM437 cp437 437 csPC8CodePage437
cp850       IBM850 cp850 850 csPC850Multilingual
cp852       IBM852 cp852 852 csPCp852
cp855       IBM855 cp855 855 csIBM855
cp858       IBM00858 CCSID00858 CP00858 PC-Multilingual-850+euro csIBM00858
cp860       IBM860 cp860 860 csIBM860
cp862       IBM862 cp862 862 csPC862LatinHebrew
cp863       IBM863 cp863 863 csIBM863
cp865       IBM865 cp865 865 csIBM865
cp866       IBM866 cp866 866 csIBM866
cp1140      IBM01140 CCSID01140 CP01140 ebcdic-us-37+euro csIBM01140
koi8_r      KOI8-R csKOI8R
koi8_u      KOI8-U csKOI8U
mac_roman   macintosh mac csMacintosh
cp874       windows-874 cswindows874
cp1250      windows-1250 cswindows1250
cp1251      windows-1251 cswindows1251
cp1252      windows-1252 cswindows1252
cp1253      windows-1253 cswindows1253
cp1254      windows-1254 cswindows1254
cp1255      windows-1255 cswindows1255
cp1256      windows-1256 cswindows1256
cp1257      windows-1257 cswindows1257
cp1258      windows-1258 cswindows1258
euc_jp      EUC-JP Extended_UNIX_Code_Packed_Format_for_Japanese csEUCPkdFmtJapanese
iso2022_jp  ISO-2022-JP csISO2022JP
cp932       Shift_JIS MS_Kanji csShiftJIS
cp949       EUC-KR csEUCKR
gbk         GBK CP936 MS936 windows-936 csGBK
gb18030     GB18030 csGB18030
hz          HZ-GB-2312
big5        Big5 csBig5
utf-8       UTF-8 csUTF8
utf-16      UTF-16 csUTF16
utf-16-be   UTF-16BE csUTF16BE
utf-16-le   UTF-16LE csUTF16LE
"""  # noqa: E501


_ENCODING_ROWS: Final = [line.split() for line in _ENCODINGS.strip().splitlines()]
_CODECS: Final = {name.lower(): codec for codec, *names in _ENCODING_ROWS for name in names}


def _find_codec(name: str) -> str:
    """Return the codec for an IANA encoding name.

    Raises FunctionProblem.
    """
    codec = _CODECS.get(name.lower())
    if codec is None:
        message = (
            f'"{name}" is not a supported IANA encoding name or alias in this version of nexusform'
        )
        raise FunctionProblem(message, argument=1)
    return codec


def _encode_text(text: str, encoding: str) -> str:
    """Encode a text in another encoding, as base64.

    Raises FunctionProblem.
    """
    codec = _find_codec(encoding)
    try:
        # UTF-16 without a byte order in its name is big-endian, and starts with a byte order mark.
        encoded = (
            b"\xfe\xff" + text.encode("utf-16-be") if codec == "utf-16" else text.encode(codec)
        )
        return encode_base64(encoded)
    except UnicodeError:
        message = f"the given string contains characters that cannot be represented in {encoding}"
        raise FunctionProblem(message, argument=0) from None


def _decode_text(text: str, encoding: str) -> str:
    """Decode base64, and the resulting bytes from `encoding` to text.

    Raises FunctionProblem.
    """
    codec = _find_codec(encoding)
    try:
        data = decode_base64(text)
        if codec == "utf-16" and data[:2] not in {b"\xfe\xff", b"\xff\xfe"}:
            # The order without a byte order mark.
            codec = "utf-16-be"
        return normalize_stored_text(data.decode(codec))
    except UnicodeError:
        message = f"the given string contains symbols that are not defined for {encoding}"
        raise FunctionProblem(message, argument=0) from None


def _encode_json(value: Value) -> Value:
    """Evaluate `jsonencode`.

    With unknown parts in the value, only the first character of the text may be known.
    """
    if value.is_wholly_known:
        return Value(STRING, render_json(value))
    prefix = get_json_prefix(value.type) if get_refinement(value).not_null else ""
    return Value(STRING, UNKNOWN, refinement=Refinement(not_null=True, prefix=prefix))


_TEXT: Final = [("str", STRING, "the text")]
_STRING: Final = ("string", STRING, "the text")
_ENCODING: Final = ("encoding", STRING, "an IANA name, for example UTF-16LE")

FUNCTIONS: Final = (
    build_plain_function(
        "base64decode",
        "The text decoded from base64.",
        _TEXT,
        compute=lambda text: decode_utf8(decode_base64(text), _DECODED),
        examples=[('base64decode("SGVsbG8=")', '"Hello"')],
    ),
    build_plain_function(
        "base64encode",
        "The text's UTF-8 bytes in base64.",
        _TEXT,
        compute=lambda text: encode_base64(text.encode()),
        examples=[('base64encode("Hello")', '"SGVsbG8="')],
    ),
    build_plain_function(
        "base64gunzip",
        "The text decoded from base64 and gzip.",
        _TEXT,
        compute=_decompress_from_base64_gzip,
        examples=[('base64gunzip(base64gzip("Hello"))', '"Hello"')],
    ),
    build_plain_function(
        "base64gzip",
        "The text's UTF-8 bytes compressed with gzip, in base64.",
        _TEXT,
        compute=_compress_to_base64_gzip,
        examples=[('base64gunzip(base64gzip("Hello"))', '"Hello"')],
    ),
    Function(
        "csvdecode",
        "The rows of a CSV text as a list of objects, named by its first row.",
        (Parameter("str", STRING, "the text"),),
        DYNAMIC,
        lambda text: _parse_csv(text.raw),
        (Example('csvdecode("a,b\\n1,2")[0].b', '"2"'),),
    ),
    Function(
        "jsondecode",
        "The value of a JSON text.",
        (Parameter("str", STRING, "the text"),),
        lambda arguments: determine_json_type(get_refinement(arguments[0]).prefix),
        lambda text: parse_json(text.raw),
        (Example('jsondecode("{\\"hello\\": [1]}")', "{ hello = [1] }"),),
        may_be_null=True,
    ),
    Function(
        "jsonencode",
        "The value as JSON text.",
        (build_any_parameter("val", "a value"),),
        STRING,
        _encode_json,
        (Example('jsonencode({ hello = "world" })', '"{\\"hello\\":\\"world\\"}"'),),
    ),
    build_plain_function(
        "textdecodebase64",
        "The text decoded from base64 in another character encoding.",
        [("source", STRING, "base64"), _ENCODING],
        compute=_decode_text,
        examples=[('textdecodebase64("SABlAGwAbABvAA==", "UTF-16LE")', '"Hello"')],
    ),
    build_plain_function(
        "textencodebase64",
        "The text in another character encoding, in base64.",
        [_STRING, _ENCODING],
        compute=_encode_text,
        examples=[('textencodebase64("Hello", "UTF-16LE")', '"SABlAGwAbABvAA=="')],
    ),
    build_plain_function(
        "urldecode",
        "The text with percent escapes and plus signs decoded.",
        _TEXT,
        compute=_unquote_url,
        examples=[('urldecode("Hello+World%21")', '"Hello World!"')],
    ),
    build_plain_function(
        "urlencode",
        "The text with percent escapes for the query of a URL.",
        _TEXT,
        compute=_quote_url,
        examples=[('urlencode("Hello World!")', '"Hello+World%21"')],
    ),
    Function(
        "yamldecode",
        "The value of a YAML text with one document.",
        (Parameter("src", STRING, "the text"),),
        DYNAMIC,
        lambda text: parse_yaml(text.raw),
        (Example('yamldecode("a: [1, yes]")', "{ a = [1, true] }"),),
        may_be_null=True,
    ),
    Function(
        "yamlencode",
        "The value as YAML text.",
        (build_any_parameter("value", "a value"),),
        STRING,
        lambda value: Value(STRING, render_yaml(value) if value.is_wholly_known else UNKNOWN),
        (Example('yamlencode({ a = ["b"] })', '"\\"a\\":\\n- \\"b\\"\\n"'),),
    ),
)
