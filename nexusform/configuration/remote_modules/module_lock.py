"""The lock file `.nexusform.lock.hcl`: what `init` selected for each module call.

Plan, apply and validate use only modules named here.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from nexusform.configuration.static_arguments import evaluate_string, unpack_result
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, Span, build_error
from nexusform.language.body_decoding import BodySchema, decode_body
from nexusform.language.parser import parse_file

LOCK_FILE: Final = ".nexusform.lock.hcl"
MAX_LOCK_BYTES: Final = 16 * 1024 * 1024
_HEADER: Final = """\
# "nexusform init" writes this file. Commit it with the configuration.
# "nexusform init -upgrade" selects newer modules.
"""
_ROOT_SCHEMA: Final = BodySchema(blocks={"module": ("call",)})
_FIELDS: Final = (
    "source", "constraints", "version", "commit", "subdirectory", "incomplete", "hash",
)  # fmt: skip
# No path contains it.
_SEPARATOR: Final = "//"
_MODULE_SCHEMA: Final = BodySchema(
    attributes={name: name in ("source", "hash") for name in _FIELDS}
)
# Of a module of a test file, the first parts are the parts of its path, each after "@".
_CALL: Final = re.compile(r"(?:@[\w%~-]+\.)*[^\W\d][\w-]*(?:\.[^\W\d][\w-]*)*")
_HASH: Final = re.compile(r"h1:[0-9A-Za-z+/]{43}=")
_COMMIT: Final = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})?")


class LockedModule(Struct, frozen=True):
    """Selected package of one module call.

    `call` is the path of the call, like `site.racks`. `source` is that of the block without
    parameters of a server, `constraints` its version constraints. `version` is that of a registry,
    `commit` that of a git repository, and `hash` that of the tree of the package. `subdirectory` is
    the directory in the package that a registry names. `incomplete` are directories of the package
    of which files were left out.
    """

    call: str
    source: str
    hash: str
    constraints: str = ""
    version: str = ""
    commit: str = ""
    subdirectory: str = ""
    incomplete: str = ""
    span: Span | None = None


def join_directories(directories: Iterable[str]) -> str:
    """Join the incomplete directories of a package to one text."""
    return _SEPARATOR.join(sorted(set(directories)))


def split_directories(text: str) -> frozenset[str]:
    """Return the incomplete directories of a package."""
    return frozenset(filter(None, text.split(_SEPARATOR)))


def is_tree_hash(text: str) -> bool:
    """Return whether a text has the form of the hash of a tree."""
    return _HASH.fullmatch(text) is not None


def format_call(path: tuple[str, ...]) -> str:
    """Return the path of a call as in the lock file and as directory name."""
    return ".".join(path)


def parse_lock_file(source: SourceFile) -> tuple[dict[str, LockedModule], list[Diagnostic]]:
    """Parse a lock file.

    Return its modules by call, and its errors.
    """
    body, problems = parse_file(source)
    modules: dict[str, LockedModule] = {}
    for block in unpack_result(decode_body(body, _ROOT_SCHEMA), problems).blocks:
        call = block.labels[0].value
        parts = unpack_result(decode_body(block.body, _MODULE_SCHEMA), problems)
        values = {
            name: evaluate_string(attribute, problems) or ""
            for name, attribute in parts.attributes.items()
        }
        module = LockedModule(
            call=call,
            source=values.get("source", ""),
            hash=values.get("hash", ""),
            constraints=values.get("constraints", ""),
            version=values.get("version", ""),
            commit=values.get("commit", ""),
            subdirectory=values.get("subdirectory", ""),
            incomplete=values.get("incomplete", ""),
            span=block.header_span,
        )
        problem = _find_invalid_field(module, modules)
        if problem:
            detail = (
                f"{problem} Restore the file from version control, or delete it and run `nexusform "
                "init`."
            )
            problems.append(build_error("invalid-module-lock", detail, block.header_span))
        modules.setdefault(call, module)
    return modules, problems


def _find_invalid_field(module: LockedModule, earlier: Mapping[str, LockedModule]) -> str:
    if not _CALL.fullmatch(module.call):
        return "The label of the block is not the path of a module call."
    if module.call in earlier:
        return f'The module "{module.call}" is listed twice.'
    if not is_tree_hash(module.hash):
        return f'The hash of the module "{module.call}" is invalid.'
    if not _COMMIT.fullmatch(module.commit):
        return f'The commit of the module "{module.call}" is invalid.'
    if module.subdirectory.startswith("/") or ".." in module.subdirectory.split("/"):
        return f'The subdirectory of the module "{module.call}" is invalid.'
    return ""


def render_lock_file(modules: Iterable[LockedModule]) -> str:
    """Render the text of a lock file, sorted by call."""
    blocks = [_HEADER]
    for module in sorted(modules, key=lambda entry: entry.call):
        fields = {name: getattr(module, name) for name in _FIELDS}
        present_fields = {name: text for name, text in fields.items() if text}
        width = max(map(len, present_fields))
        lines = [
            f"  {name.ljust(width)} = {_quote(text)}\n" for name, text in present_fields.items()
        ]
        blocks.append(f'module "{module.call}" {{\n{"".join(lines)}}}\n')
    return "\n".join(blocks)


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("${", "$${").replace("%{", "%%{") + '"'
