"""Secrets known from the schema: fields of values that hold passwords and keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from nexusform.json_data.plain_data import Path, get_value_at_path
from nexusform.schemas.block_schema import BlockSchema, Nesting
from nexusform.values.typed_value import UNKNOWN

# Fields of request bodies of Azure and of parameters of VNFs. Everything inside of the first
# ones is secret. The others are recognized by the end of their name, in any notation:
# admin_password, adminPassword, ADMIN-PASSWORD.
SECRET_FIELDS: Final = re.compile(
    r"(?i:(.*[_-])?(bmc|admin|administrator|vmImageRepository)_?Credentials"
    r"|accessInfo|(user|network|custom)_?data(_?content)?"
    r"|.*(password|passwd|passphrase|secret|secrets|token|connection_?string"
    r"|(private|access|account|shared|primary|secondary|api|encryption)[_-]?key))"
)


def find_secret_paths(schema: BlockSchema, values: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the paths of the scalars that are secret by the schema, nulls left out."""
    if not _has_secret_fields(schema):
        return
    for name, attribute in schema.attributes.items():
        if attribute.secret_fields is not None:
            yield from find_secret_fields(values.get(name), attribute.secret_fields, (name,))
    for name, block in schema.blocks.items():
        for path, item in _iterate_blocks(values.get(name), block.nesting):
            for inner_path in find_secret_paths(block.schema, item):
                yield (name, *path, *inner_path)


def find_secret_fields(
    value: Any, names: re.Pattern[str], path: Path, *, is_secret: bool = False
) -> Iterator[Path]:
    """Yield the paths of the scalars in or below a field of these names.

    `path` is that of `value`. With `is_secret`, an enclosing field has such a name.
    """
    last_step = path[-1] if path else ""
    is_secret = is_secret or (isinstance(last_step, str) and bool(names.fullmatch(last_step)))
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from find_secret_fields(inner, names, (*path, name), is_secret=is_secret)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from find_secret_fields(inner, names, (*path, index), is_secret=is_secret)
    elif is_secret and value is not None:
        yield path


def add_secret_paths(paths: tuple[Path, ...], secrets: Iterable[Path]) -> tuple[Path, ...]:
    """Return the paths with those of the secrets that no shorter path covers."""
    known = set(paths)
    added = [
        secret
        for secret in dict.fromkeys(secrets)
        if not any(secret[:length] in known for length in range(len(secret) + 1))
    ]
    return (*paths, *added)


# A shorter text occurs in messages by chance.
_SHORTEST_SECRET: Final = 6
REDACTED: Final = "(sensitive value)"


def find_secret_texts(values: Mapping[str, Any], paths: Iterable[Path]) -> list[str]:
    """Return the texts at the secret paths, longest first."""
    texts: set[str] = set()
    for path in paths:
        for value in _iterate_scalars(get_value_at_path(values, *path)):
            text = str(value)
            if not isinstance(value, bool) and len(text) >= _SHORTEST_SECRET:
                texts.add(text)
    return sorted(texts, key=len, reverse=True)


def redact_texts(message: str, secrets: Iterable[str]) -> str:
    """Return the message without the secret texts."""
    for secret in secrets:
        message = message.replace(secret, REDACTED)
    return message


def _iterate_scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _iterate_scalars(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _iterate_scalars(inner)
    elif value is not None and value is not UNKNOWN:
        yield value


def _iterate_blocks(blocks: Any, nesting: Nesting) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the known blocks of one name, each with its label or position as path."""
    items: Iterable[tuple[Path, Any]] = ()
    if nesting is Nesting.SINGLE:
        items = [((), blocks)]
    elif isinstance(blocks, Mapping):
        items = [((label,), item) for label, item in blocks.items()]
    elif isinstance(blocks, list):
        items = [((index,), item) for index, item in enumerate(blocks)]
    for path, item in items:
        if isinstance(item, Mapping):
            yield path, item


@lru_cache(maxsize=1024)
def _has_secret_fields(schema: BlockSchema) -> bool:
    """Return whether the schema or one of its blocks has an attribute with secret fields."""
    if any(attribute.secret_fields is not None for attribute in schema.attributes.values()):
        return True
    return any(_has_secret_fields(block.schema) for block in schema.blocks.values())
