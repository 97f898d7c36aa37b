"""Bytes as base64 and back."""

from __future__ import annotations

from nexusform.language.functions.function import FunctionProblem


def encode_base64(data: bytes) -> str:
    """Bytes in base64."""
    import binascii

    return binascii.b2a_base64(data, newline=False).decode("ascii")


def decode_base64(text: str) -> bytes:
    """The bytes that base64 stands for; line ends do not count. Raises FunctionProblem."""
    import binascii

    try:
        return binascii.a2b_base64(text.replace("\r", "").replace("\n", ""), strict_mode=True)
    except (binascii.Error, ValueError):
        shown = text if len(text) <= 40 else text[:40] + "..."
        raise FunctionProblem(f'failed to decode base64 data "{shown}"', 0) from None
