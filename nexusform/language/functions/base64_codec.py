"""Conversion of bytes to base64 and back."""

from __future__ import annotations

from nexusform.language.functions.function import FunctionProblem


def encode_base64(data: bytes) -> str:
    """Encode bytes in base64."""
    import binascii

    return binascii.b2a_base64(data, newline=False).decode("ascii")


def decode_base64(text: str) -> bytes:
    """Decode base64 to bytes, ignoring line ends. Raises FunctionProblem."""
    import binascii

    try:
        return binascii.a2b_base64(text.replace("\r", "").replace("\n", ""), strict_mode=True)
    except (binascii.Error, ValueError):
        excerpt = text if len(text) <= 40 else text[:40] + "..."
        raise FunctionProblem(f'failed to decode base64 data "{excerpt}"', 0) from None
