"""Translation of configurations of Terraform's tests into the types of nexusform.

Every resource becomes one type with one text argument. The text is made from all arguments, so that
their expressions stay. What has no counterpart makes the case unsayable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from nexusform.diagnostics.diagnostic import SourceFile, Span
from nexusform.language.parser import parse_file
from nexusform.language.references import list_body_traversals
from nexusform.language.syntax.syntax_nodes import (
    Block,
    Body,
    Traversal,
    TraverseAttribute,
    TraverseIndex,
)


class Dialect(Struct, frozen=True):
    """Names of a program for what both can say."""

    resource_type: str
    argument: str
    settings: str
    configuration_ending: str
    test_ending: str
    variables_ending: str
    computed: str = "id"


NEXUSFORM = Dialect("nexus_site", "name", "nexusform", ".nf.hcl", ".nftest.hcl", ".nfvars.hcl")
TERRAFORM = Dialect("terraform_data", "input", "terraform", ".tf", ".tftest.hcl", ".tfvars")

# Arguments of the test provider that mean the text of a resource.
_TEXT_ARGUMENTS = ("value",)
_SETTINGS = ("required_version",)
_META = ("count", "for_each", "depends_on", "lifecycle")
_DROPPED = ("provider", "provisioner", "connection", "timeouts")
_ROOT_BLOCKS = frozenset(
    ("variable", "locals", "output", "module", "resource", "terraform", "moved", "import",
     "removed", "check", "run", "variables", "test")
)  # fmt: skip
_UNSAYABLE_BLOCKS = frozenset(
    (("removed", "provisioner"), ("check", "data"), ("run", "override_resource"),
     ("run", "override_data"), ("run", "override_module"))
)  # fmt: skip
_NAMES = frozenset(
    ("var", "local", "module", "path", "terraform", "each", "count", "self", "run", "output")
)


class Unsayable(Exception):
    """Configuration with a part that has no counterpart; the message names it."""


class _Edits:
    """Edits of a text by span."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = text.encode()
        self.edits: list[tuple[int, int, str]] = []

    def replace(self, span: Span, text: str) -> None:
        """Replace the text of a span."""
        self.edits.append((span.start.byte, span.end.byte, text))

    def read(self, span: Span) -> str:
        """Return the text of a span with its edits."""
        return self.render(span.start.byte, span.end.byte)

    def render(self, start: int, end: int) -> str:
        """Return the edited text between two positions; an outer edit wins."""
        result = []
        position = start
        for begin, stop, text in sorted(self.edits, key=lambda edit: (edit[0], -edit[1])):
            if begin < position or stop > end:
                continue
            result.append(self.data[position:begin].decode())
            result.append(text)
            position = stop
        result.append(self.data[position:end].decode())
        return "".join(result)


def translate_tree(source: Path, target: Path, dialect: Dialect) -> None:
    """Write the translation of all files of a directory.

    Raises Unsayable.
    """
    for path in sorted(source.rglob("*")):
        relative = path.relative_to(source)
        if path.is_dir() or relative.parts[0] in (".terraform", "output.json"):
            continue
        name = path.name
        place = target / relative.parent
        place.mkdir(parents=True, exist_ok=True)
        if name.endswith((".tf.json", ".tftest.json", ".tofu")):
            raise Unsayable("JSON")
        if name.endswith(".tftest.hcl"):
            new_name = name.removesuffix(".tftest.hcl") + dialect.test_ending
        elif name.endswith(".tf"):
            new_name = name.removesuffix(".tf") + dialect.configuration_ending
        elif name.endswith(".tfvars.json"):
            stem = name.removesuffix(".tfvars.json")
            stem = dialect.settings if stem == "terraform" else stem
            ending = dialect.variables_ending.removesuffix(".hcl") + ".json"
            (place / f"{stem}{ending}").write_bytes(path.read_bytes())
            continue
        elif name.endswith(".tfvars"):
            stem = name.removesuffix(".tfvars")
            stem = dialect.settings if stem == "terraform" else stem
            (place / f"{stem}{dialect.variables_ending}").write_bytes(path.read_bytes())
            continue
        else:
            if name.endswith((".tfmock.hcl", ".tfstate", ".tfquery.hcl")):
                raise Unsayable(name)
            (place / name).write_bytes(path.read_bytes())
            continue
        (place / new_name).write_text(translate_text(path.read_text(), name, dialect))


def translate_text(text: str, name: str, dialect: Dialect) -> str:
    """Return the translation of one file.

    Raises Unsayable.
    """
    body, problems = parse_file(SourceFile(name, text))
    if problems:
        # An error of syntax is the same in every dialect.
        return text
    assert isinstance(body, Body)
    edits = _Edits(text)
    for traversal in list_body_traversals(body):
        _translate_reference(edits, traversal, dialect)
    for block in body.blocks:
        _translate_block(edits, block, dialect)
    return edits.render(0, len(edits.data))


def _translate_reference(edits: _Edits, whole: Traversal, dialect: Dialect) -> None:
    traversal = whole.remove_resource_prefix()
    root = traversal.root.name
    if root == "terraform":
        edits.replace(traversal.root.span, dialect.settings)
        return
    if root == "self" and traversal.first_name in _TEXT_ARGUMENTS:
        edits.replace(traversal.steps[0].span, f".{dialect.argument}")
    if root in _NAMES or not traversal.first_name or "_" not in root:
        if root in ("data", "ephemeral", "provider"):
            raise Unsayable(f"{root} reference")
        return
    edits.replace(traversal.root.span, dialect.resource_type)
    first = traversal.steps[0]
    edits.replace(first.span, f".{_join_name(root, traversal.first_name)}")
    rest = list(traversal.steps[1:])
    if rest and isinstance(rest[0], TraverseIndex):
        rest.pop(0)
    if rest and isinstance(rest[0], TraverseAttribute):
        if rest[0].name in _TEXT_ARGUMENTS:
            edits.replace(rest[0].span, f".{dialect.argument}")
        elif rest[0].name != "id":
            edits.replace(rest[0].span.extend_to(rest[-1].span), f".{dialect.computed}")


def _join_name(resource_type: str, name: str) -> str:
    return f"{resource_type}_{name}"


def _translate_block(edits: _Edits, block: Block, dialect: Dialect) -> None:
    if block.type not in _ROOT_BLOCKS:
        raise Unsayable(f"block {block.type}")
    assert isinstance(block.body, Body)
    if block.type == "terraform":
        _translate_settings(edits, block, dialect)
    elif block.type == "resource":
        _translate_resource(edits, block, dialect)
    elif block.type in ("module", "run"):
        for attribute in block.body.attributes:
            if attribute.name == "providers":
                raise Unsayable("providers")
    for inner in block.body.blocks:
        if (block.type, inner.type) in _UNSAYABLE_BLOCKS:
            raise Unsayable(f"{inner.type} in {block.type}")


def _translate_settings(edits: _Edits, block: Block, dialect: Dialect) -> None:
    assert isinstance(block.body, Body)
    for inner in block.body.blocks:
        if inner.type != "required_providers":
            raise Unsayable(f"{inner.type} of terraform")
        edits.replace(inner.span, "")
    for attribute in block.body.attributes:
        raise Unsayable(f"{attribute.name} of terraform")
    edits.replace(block.type_span, dialect.settings)


def _translate_resource(edits: _Edits, block: Block, dialect: Dialect) -> None:
    assert isinstance(block.body, Body)
    if len(block.labels) != 2:
        return
    resource_type, name = (label.value for label in block.labels)
    attributes = {attribute.name: attribute for attribute in block.body.attributes}
    value = '"unnamed"'
    for word in _TEXT_ARGUMENTS:
        if word in attributes:
            value = edits.read(attributes[word].expression.span)
    texts = {
        word: edits.read(attribute.expression.span)
        for word, attribute in attributes.items()
        if word not in (*_TEXT_ARGUMENTS, *_META, *_DROPPED)
    }
    if resource_type == "test_resource" and texts:
        raise Unsayable(f"argument {min(texts)} of test_resource")
    texts |= _translate_inner_blocks(edits, block.body)
    if texts:
        entries = ", ".join(f"{key} = {text}" for key, text in texts.items())
        value = f"sha1(jsonencode({{ {entries} }}))"
    kept = [attribute.span for word, attribute in attributes.items() if word in _META]
    kept += [inner.span for inner in block.body.blocks if inner.type in _META]
    lines = [f"  {edits.read(span)}\n" for span in sorted(kept, key=lambda span: span.start.byte)]
    header = f'resource "{dialect.resource_type}" "{_join_name(resource_type, name)}"'
    text = f"{header} {{\n  {dialect.argument} = {value}\n{''.join(lines)}}}"
    edits.replace(block.span, text)


def _translate_inner_blocks(edits: _Edits, body: Body) -> dict[str, str]:
    """Return the arguments of the blocks of a resource by a name of both."""
    texts: dict[str, str] = {}
    for inner in body.blocks:
        if inner.type == "dynamic":
            raise Unsayable("dynamic")
        if inner.type in (*_META, *_DROPPED):
            continue
        assert isinstance(inner.body, Body)
        for attribute in inner.body.attributes:
            texts[f"{inner.type}_{attribute.name}"] = edits.read(attribute.expression.span)
    return texts


def read_test_table(text: str) -> Mapping[str, tuple[int, str, list[str], dict[str, str], str]]:
    """Read the table of `TestTest_Runs`.

    Return exit code, counts ("" without), arguments, variables and directory by name.
    """
    table = text.partition("tcs := map[string]struct {")[2].partition("\n\t}\n\tfor name")[0]
    cases = {}
    for match in re.finditer(
        r'^\t\t"([\w-]+)": \{\n(.*?)^\t\t\},', table, re.MULTILINE | re.DOTALL
    ):
        name, body = match.groups()
        code = re.search(r"\bcode:\s+(\d)", body)
        count = re.search(r'"(?:[^"]*, )?(\d+ passed, \d+ failed)', body)
        arguments = re.search(r"args:\s+\[\]string\{(.*)\}", body)
        variables = dict(re.findall(r'"(TF_VAR_\w+)":\s+"(.*?)"', body))
        directory = re.search(r'override:\s+"(.*)"', body)
        cases[name] = (
            int(code[1]) if code else 0,
            count[1] if count else "",
            _split_arguments(arguments[1]) if arguments else [],
            variables,
            directory[1] if directory else name,
        )
    return cases


def _split_arguments(text: str) -> list[str]:
    found = re.findall(r'"((?:\\.|[^"\\])*)"', text)
    return [argument.replace('\\"', '"') for argument in found]
