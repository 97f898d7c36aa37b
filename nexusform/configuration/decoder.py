"""Syntax trees and schemas to a Configuration: every block of every module gets its meaning.

The files of a called module are asked for through a function, so that nothing here reads any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import ConfigAddress, Mode
from nexusform.configuration.declared.configuration import (
    AnyBody,
    Check,
    Configuration,
    ImportBlock,
    Local,
    Module,
    ModuleCall,
    Moved,
    Output,
    ProviderBlock,
    Removed,
    ResourceBlock,
    Settings,
    Variable,
)
from nexusform.configuration.module_blocks import MODULE_FACE, CallHeader, decode_call, decode_provider
from nexusform.configuration.moving_blocks import decode_import, decode_moved, decode_removed
from nexusform.configuration.resource_blocks import Home, Registered, decode_resource
from nexusform.configuration.settings_block import decode_settings
from nexusform.configuration.value_blocks import (
    decode_conditions,
    decode_locals,
    decode_output,
    decode_variable,
)
from nexusform.configuration.written import already, check_name, header_text, in_text_order, only_block
from nexusform.diagnostics import Diagnostic, did_you_mean, error
from nexusform.language.bodies import BodySchema, content
from nexusform.language.syntax.nodes import Block
from nexusform.language.syntax.positions import describe
from nexusform.source import SourceFile, Span

ROOT_FACE = BodySchema(
    blocks={
        "nexusform": (),
        "variable": ("name",),
        "locals": (),
        "output": ("name",),
        "resource": ("type", "name"),
        "data": ("type", "name"),
        "module": ("name",),
        "provider": ("name",),
        "moved": (),
        "removed": (),
        "import": (),
        "check": ("name",),
    }
)
_CHECK_FACE = BodySchema(blocks={"data": ("type", "name"), "assert": ()})
LARGEST_TREE = 10_000  # module calls in all: far above honest use, and low enough to end in a message


class ParsedFile(Struct, frozen=True):
    """One file of a module: its own name, text, tree, and the lint ids of comments by line.

    `broken` when its syntax is wrong: then what it seems to lack is no mistake.
    """

    name: str
    source: SourceFile
    body: AnyBody
    override: bool
    ignored: Mapping[int, frozenset[str]] = field(default_factory=dict)
    broken: bool = False


class ModuleFiles(Struct, frozen=True):
    """The files of one directory, by name.

    `directory` is as shown to the user; `identity` is equal for two spellings of one directory.
    """

    directory: str
    identity: str
    files: tuple[ParsedFile, ...]


# The files of the directory that a call names, seen from the caller's directory; None, and told
# elsewhere, when it cannot be read.
ReadModule: TypeAlias = Callable[[str, CallHeader], ModuleFiles | None]


def decode(
    root: ModuleFiles, read_module: ReadModule, registered: Registered
) -> tuple[Configuration, list[Diagnostic]]:
    """The configuration of a module tree and everything wrong with it, in the order of the text.

    With errors the configuration holds what could be understood. When a file is broken the root
    module is empty and has no directory, for what refers to what cannot be told.
    """
    tree = _Tree(read_module, registered)
    module, settings = _Decoder(tree, root, (), (), (root.identity,)).module()
    if tree.broken:
        module = Module((), "")
    return Configuration(module, settings, tree.files), in_text_order(_worth_telling(tree))


def _worth_telling(tree: _Tree) -> Iterable[Diagnostic]:
    # A module that is called twice says everything twice.
    once = {(p.id, p.detail, p.subject): p for p in tree.problems}
    return (p for p in once.values() if p.subject is None or p.subject.filename not in tree.broken)


class _Unique(NamedTuple):
    """The error about a second block of one name: its id, and how a block and the rule are called."""

    kind: str
    named: str
    rule: str


_VARIABLE: Final = _Unique(
    "duplicate-variable-declaration", "A variable named", "Variable names must be unique within a module."
)
_LOCAL: Final = _Unique(
    "duplicate-local-value-definition",
    "A local value named",
    "Local value names must be unique within a module.",
)
_OUTPUT: Final = _Unique(
    "duplicate-output-definition", "An output named", "Output names must be unique within a module."
)
_CHECK: Final = _Unique(
    "duplicate-check", "A check block named", "Check blocks must be unique within each module."
)
_Kept = TypeVar("_Kept", Variable, Local, Output, Check)


class _Tree:
    """What the decoders of all modules share."""

    def __init__(self, read_module: ReadModule, registered: Registered) -> None:
        self.read_module = read_module
        self.registered = registered
        self.problems: list[Diagnostic] = []
        self.files: dict[str, SourceFile] = {}
        self.broken: set[str] = set()
        self.calls = 0


class _Decoder:
    """Reads one module; `chain` are the identities of the directories on the way to it."""

    def __init__(
        self,
        tree: _Tree,
        source: ModuleFiles,
        path: tuple[str, ...],
        prefix: tuple[tuple[str, int], ...],
        chain: tuple[str, ...],
    ) -> None:
        self.tree = tree
        self.source = source
        self.path = path
        self.prefix = prefix
        self.chain = chain
        self.problems = tree.problems
        self.broken = any(file.broken for file in source.files)
        self.variables: dict[str, Variable] = {}
        self.locals: dict[str, Local] = {}
        self.outputs: dict[str, Output] = {}
        self.resources: dict[tuple[Mode, str, str], ResourceBlock] = {}
        self.calls: dict[str, ModuleCall] = {}
        self.providers: dict[str, ProviderBlock] = {}
        self.checks: dict[str, Check] = {}
        self.scoped: dict[ConfigAddress, ResourceBlock] = {}  # the data blocks of checks
        self.moved: list[Moved] = []
        self.removed: list[Removed] = []
        self.imports: list[ImportBlock] = []

    def module(self) -> tuple[Module, Settings]:
        """The module and its settings."""
        primary, overriding = self._blocks()
        settings_blocks = [b for b, _ in primary if b.type == "nexusform"]
        settings_overrides = [b for b in overriding if b.type == "nexusform"]
        before = len(self.problems)
        settings = decode_settings(settings_blocks, settings_overrides, self.problems, root=not self.path)
        self.problems[before:] = [replace(p, block="nexusform") for p in self.problems[before:]]
        overridden: list[Block] = []
        if overriding and not self.broken:
            from nexusform.configuration.override_files import apply_overrides

            primary, overridden = apply_overrides(primary, overriding, self.tree.registered, self.problems)
        for block, home in primary:
            before = len(self.problems)
            _READERS[block.type](self, block, home)
            self._name_block(block, before)
        for block in overridden:
            for local in decode_locals(block, self.problems):
                self._override_local(local)
        return self._result(), settings

    def _result(self) -> Module:
        return Module(
            path=self.path,
            directory=self.source.directory,
            variables=self.variables,
            locals=self.locals,
            outputs=self.outputs,
            resources=self.resources,
            calls=self.calls,
            providers=self.providers,
            moved=tuple(self.moved),
            removed=tuple(self.removed),
            imports=tuple(self.imports),
            checks=tuple(self.checks.values()),
        )

    def _blocks(self) -> tuple[list[tuple[Block, Home]], list[Block]]:
        """All blocks of the ordinary files with where they stand, and those of override files."""
        primary: list[tuple[Block, Home]] = []
        overriding: list[Block] = []
        for file in self.source.files:
            self.tree.files[file.source.name] = file.source
            if file.broken:
                self.tree.broken.add(file.source.name)
            parts, wrong = content(file.body, ROOT_FACE)
            self.problems.extend(_explained(problem, file.source) for problem in wrong)
            if file.override:
                overriding.extend(parts.blocks)
            else:
                home = Home(self.path, self.prefix, file.name, file.ignored)
                primary.extend((block, home) for block in parts.blocks)
        return primary, overriding

    def _name_block(self, block: Block, before: int) -> None:
        """Say of each new problem in which block it stands."""
        header = header_text(block)
        for index in range(before, len(self.problems)):
            problem = self.problems[index]
            if not problem.block and (block.type != "module" or _within(problem, block)):
                self.problems[index] = replace(problem, block=header)

    def _error(self, kind: str, detail: str, span: Span, headline: str = "") -> None:
        self.problems.append(error(kind, detail, span, headline=headline))

    # --- one reader per block type -------------------------------------------------------------

    def settings_read(self, block: Block, home: Home) -> None:
        """Settings are read before everything else."""

    def read_variable(self, block: Block, _home: Home) -> None:
        """`variable`."""
        variable = decode_variable(block, self.problems)
        if variable is not None:
            self._keep(self.variables, variable, _VARIABLE)

    def read_locals(self, block: Block, _home: Home) -> None:
        """`locals`."""
        for local in decode_locals(block, self.problems):
            self._keep(self.locals, local, _LOCAL)

    def _override_local(self, local: Local) -> None:
        if local.name in self.locals:
            self.locals[local.name] = local
            return
        detail = (
            f'There is no local value named "{local.name}". An override file can only override a local value '
            "that was already defined in a primary configuration file."
        )
        self._error("missing-base-local-value-definition-to-override", detail, local.span)

    def read_output(self, block: Block, _home: Home) -> None:
        """`output`."""
        output = decode_output(block, self.problems)
        if output is not None:
            self._keep(self.outputs, output, _OUTPUT)

    def _keep(self, known: dict[str, _Kept], named: _Kept, unique: _Unique, headline: str = "") -> None:
        """Keep the first of each name; a later one is an error."""
        earlier = known.setdefault(named.name, named)
        if earlier is not named:
            detail = already(unique.named, named.name, earlier.span, unique.rule)
            self._error(unique.kind, detail, named.span, headline)

    def read_resource(self, block: Block, home: Home) -> None:
        """`resource` and `data`."""
        mode: Mode = "managed" if block.type == "resource" else "data"
        resource = decode_resource(block, mode, home, self.tree.registered, self.problems)
        if resource is not None:
            self._unique_resource(resource)
            self.resources.setdefault((mode, resource.type, resource.name), resource)

    def _unique_resource(self, resource: ResourceBlock) -> None:
        same = self.resources.get((resource.mode, resource.type, resource.name))
        earlier = same or self.scoped.get(resource.address)
        if earlier is None:
            return
        place = describe(earlier.header_span)
        word, noun = ("resource", "resource") if resource.mode == "managed" else ("data", "data resource")
        detail = (
            f'A {resource.type} {noun} named "{resource.name}" was already declared at {place}. '
            "Resource names must be unique per type in each module."
        )
        headline = f'Duplicate {word} "{resource.type}" configuration'
        self._error("duplicate-resource", detail, resource.header_span, headline)

    def read_provider(self, block: Block, _home: Home) -> None:
        """`provider`."""
        provider = decode_provider(block, self.problems)
        if provider is None:
            return
        earlier = self.providers.setdefault(provider.key, provider)
        if earlier is provider:
            return
        place = describe(earlier.span)
        if provider.alias:
            detail = (
                f'A provider configuration for "{provider.name}" with alias "{provider.alias}" was already '
                f"given at {place}. Each configuration for the same provider must have a distinct alias."
            )
        else:
            detail = (
                f'A default (non-aliased) provider configuration for "{provider.name}" was already given at '
                f'{place}. If multiple configurations are required, set the "alias" argument for alternative '
                "configurations."
            )
        self._error("duplicate-provider-configuration", detail, provider.span)

    def read_moved(self, block: Block, _home: Home) -> None:
        """`moved`."""
        moved = decode_moved(block, self.problems)
        if moved is not None:
            self.moved.append(moved)

    def read_removed(self, block: Block, _home: Home) -> None:
        """`removed`."""
        removed = decode_removed(block, self.problems)
        if removed is not None:
            self.removed.append(removed)

    def read_import(self, block: Block, _home: Home) -> None:
        """`import`."""
        if self.path:
            detail = "Import blocks stand in the root module; this module is called by another one."
            self._error("invalid-import-configuration", detail, block.header_span)
            return
        import_block = decode_import(block, self.problems)
        if import_block is not None:
            self.imports.append(import_block)

    def read_check(self, block: Block, home: Home) -> None:
        """`check`."""
        label = block.labels[0]
        if not check_name(label, "invalid-check-block-name", self.problems):
            return
        parts, wrong = content(block.body, _CHECK_FACE)
        self.problems.extend(wrong)
        asserts = decode_conditions(parts.blocks, "assert", self.problems)
        if not any(b.type == "assert" for b in parts.blocks):
            detail = "Check blocks must have at least one assert block."
            self._error("zero-assert-blocks", detail, block.header_span)
        data = self._scoped(only_block(parts.blocks, "data", self.problems), home)
        check = Check(label.value, data, asserts, block.header_span)
        self._keep(self.checks, check, _CHECK, f'Duplicate check "{label.value}" configuration')

    def _scoped(self, block: Block | None, home: Home) -> ResourceBlock | None:
        """The data block that only the asserts of its check see."""
        if block is None:
            return None
        data = decode_resource(block, "data", home, self.tree.registered, self.problems)
        if data is not None:
            self._unique_resource(data)
            self.scoped.setdefault(data.address, data)
        return data

    def read_module(self, block: Block, home: Home) -> None:
        """`module`, and the whole module that it calls."""
        header = decode_call(block, self.problems)
        if header is None:
            return
        if header.name in self.calls:
            rule = "Module calls must have unique names within a module."
            detail = already("A module call named", header.name, self.calls[header.name].header_span, rule)
            self._error("duplicate-module-call", detail, header.header_span)
            return
        self.calls[header.name] = ModuleCall(
            name=header.name,
            source=header.source,
            module=self._called(header, home, block),
            inputs=header.inputs,
            count=header.count,
            for_each=header.for_each,
            depends_on=header.depends_on,
            span=header.span,
            header_span=header.header_span,
        )

    def _called(self, header: CallHeader, home: Home, block: Block) -> Module:
        """The module that a call names; an empty one without a directory when it cannot be read."""
        path = (*self.path, header.name)
        files = self._called_files(header)
        if files is None:
            return Module(path, "")
        prefix = (*self.prefix, (home.file, block.span.start.byte))
        child = _Decoder(self.tree, files, path, prefix, (*self.chain, files.identity))
        module = child.module()[0]
        if not child.broken:
            self._check_inputs(header, module)
        return module

    def _called_files(self, header: CallHeader) -> ModuleFiles | None:
        """The files of a called module; None where it calls itself or there are too many."""
        tree = self.tree
        tree.calls += 1
        if tree.calls > LARGEST_TREE:
            if tree.calls == LARGEST_TREE + 1:
                detail = f"The modules call each other more than {LARGEST_TREE:,} times in all."
                self._error("too-many-modules", detail, header.header_span)
            return None
        files = tree.read_module(self.source.directory, header) if header.source else None
        if files is None or files.identity not in self.chain:
            return files
        detail = (
            f'The module in "{files.directory}" calls itself, directly or through other modules: '
            f"module.{'.module.'.join([*self.path, header.name])}."
        )
        self._error("module-cycle", detail, header.source_span)
        return None

    def _check_inputs(self, header: CallHeader, child: Module) -> None:
        """Say which inputs of a call its module does not have, and which it lacks."""
        for name, (_, span) in header.inputs.items():
            if name not in child.variables:
                hint = did_you_mean(name, [*child.variables, *MODULE_FACE.attributes])
                detail = f'An argument named "{name}" is not expected here.{hint}'
                self.problems.append(error("unsupported-argument", detail, span))
        for name, variable in child.variables.items():
            if variable.default is None and name not in header.inputs:
                detail = f'The argument "{name}" is required, but no definition was found.'
                self.problems.append(error("missing-required-argument", detail, header.header_span))


_READERS: Mapping[str, Callable[[_Decoder, Block, Home], None]] = {
    "nexusform": _Decoder.settings_read,
    "variable": _Decoder.read_variable,
    "locals": _Decoder.read_locals,
    "output": _Decoder.read_output,
    "resource": _Decoder.read_resource,
    "data": _Decoder.read_resource,
    "provider": _Decoder.read_provider,
    "moved": _Decoder.read_moved,
    "removed": _Decoder.read_removed,
    "import": _Decoder.read_import,
    "check": _Decoder.read_check,
    "module": _Decoder.read_module,
}


def _within(problem: Diagnostic, block: Block) -> bool:
    """Whether it is about the block's own text, rather than the module that it calls."""
    subject, span = problem.subject, block.span
    if subject is None or subject.filename != span.filename:
        return False
    return span.start.byte <= subject.start.byte <= span.end.byte


_HINTS: Final = {
    "terraform": ' Settings stand in a block of type "nexusform".',
    "ephemeral": " nexusform keeps every resource in its state.",
}


def _explained(problem: Diagnostic, source: SourceFile) -> Diagnostic:
    """The complaint about a block that users bring along from elsewhere, with what to do instead."""
    subject = problem.subject
    if subject is None:
        return problem
    written = source.text.encode()[subject.start.byte : subject.end.byte].decode("utf-8", "replace")
    hint = _HINTS.get(written.strip('"'), "")
    return replace(problem, detail=problem.detail + hint) if hint else problem
