from __future__ import annotations

from importlib.util import find_spec

import pytest

# Its types take a quarter of a second to import, so only these tests import them.
pytestmark = pytest.mark.skipif(find_spec("lsprotocol") is None, reason="pygls is not installed")
TEXT = "a\n\U0001f600é=\n\nb"


@pytest.mark.parametrize(
    ("line", "character", "byte"),
    [
        (0, 0, 0),
        (0, 1, 1),
        (1, 0, 2),
        (1, 2, 6),
        (1, 3, 8),
        (1, 4, 9),
        (2, 0, 10),
        (3, 0, 11),
        (3, 1, 12),
    ],
)
def test_positions_round_trip_as_bytes(line: int, character: int, byte: int) -> None:
    from lsprotocol.types import Position

    from nexusform.domains.editor.server import convert_to_byte, convert_to_position

    assert convert_to_byte(TEXT, Position(line, character)) == byte
    assert convert_to_position(TEXT, byte) == Position(line, character)


def test_positions_beyond_a_line_and_the_text() -> None:
    from lsprotocol.types import Position

    from nexusform.domains.editor.server import convert_to_byte, convert_to_position

    assert convert_to_byte(TEXT, Position(0, 99)) == 1
    assert convert_to_byte(TEXT, Position(99, 0)) == len(TEXT.encode())
    # This position is within a surrogate pair.
    assert convert_to_byte(TEXT, Position(1, 1)) == 2
    assert convert_to_position(TEXT, 99) == Position(3, 1)
    assert convert_to_position("", 0) == Position(0, 0)
