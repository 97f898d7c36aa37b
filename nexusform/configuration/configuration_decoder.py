"""Conversion of syntax trees and schemas to a Configuration: decodes every block of every module.

The files of a called module are requested through a function, so that this module reads none.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from nexusform.configuration.declarations.configuration import (
    AnyBody,
    CallHeader,
    Check,
    Configuration,
    ImportBlock,
    LocalValue,
    Module,
    ModuleCall,
    MovedBlock,
    Output,
    ProviderBlock,
    RemovedBlock,
    ResourceBlock,
    Settings,
    Variable,
)
from nexusform.configuration.resource_blocks import (
    ROOT_WORDS,
    BlockLocation,
    KnownTypes,
    decode_resource_block,
)
from nexusform.configuration.static_arguments import (
    EMPTY_SCOPE,
    check_name,
    describe_duplicate,
    find_single_block,
    format_block_header,
    is_null_literal,
    unpack_result,
)
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, Span, build_error, suggest_name
from nexusform.language.body_decoding import BodySchema, decode_body
from nexusform.language.evaluation_run import Scope
from nexusform.language.parser import sort_by_position
from nexusform.language.syntax.scanner import describe_span
from nexusform.language.syntax.syntax_nodes import Block
from nexusform.resources.address import MODES, ConfigAddress, Mode
from nexusform.values.typed_value import Value

ROOT_SCHEMA = BodySchema(
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
    },
    foreign_words=ROOT_WORDS,
)
_CHECK_SCHEMA = BodySchema(blocks={"data": ("type", "name"), "assert": ()})
# Levels of modules: far above regular use, and low enough for recursion.
MAX_MODULE_DEPTH = 100
# Module calls in total: far above regular use, and low enough to end in a message.
MAX_MODULE_CALLS = 10_000


class ParsedFile(Struct, frozen=True):
    """File of a module: its own name, text, tree, and the lint ids of comments by line.

    With `has_syntax_errors`, missing parts of the file are not reported.
    """

    name: str
    source: SourceFile
    body: AnyBody
    is_override: bool
    ignored_rules: Mapping[int, frozenset[str]] = field(default_factory=dict)
    has_syntax_errors: bool = False


class ModuleFiles(Struct, frozen=True):
    """Files of one directory, by name.

    `directory` is displayed; `identity` is equal for two spellings of it. `package` is the top
    directory of the downloaded package with the module, "" outside of packages.
    """

    directory: str
    identity: str
    files: tuple[ParsedFile, ...]
    package: str = ""


# The files of the module of a call, from the caller's files and the path of the call; None with an
# error if unreadable.
ReadModule: TypeAlias = Callable[[ModuleFiles, tuple[str, ...], CallHeader], ModuleFiles | None]

# Values of the constant variables of the root module.
ReadConstants: TypeAlias = Callable[
    [Mapping[str, Variable]], tuple[Mapping[str, Value], list[Diagnostic]]
]


def decode_configuration(
    root: ModuleFiles,
    read_module: ReadModule,
    known_types: KnownTypes,
    read_constants: ReadConstants,
) -> tuple[Configuration, list[Diagnostic]]:
    """Decode the configuration of a module tree.

    Return it with all problems, in the order of the text. With errors the configuration contains
    the decodable parts. If a file has syntax errors the root module is empty and has no directory,
    because references cannot be checked.
    """
    shared = _SharedDecoderState(read_module, known_types, read_constants)
    # No module call leads to it.
    root_decoder = _Decoder(shared, root, path=(), prefix=(), chain=(root.identity,))
    module, settings = root_decoder.decode_module()
    if shared.files_with_errors:
        module = Module(path=(), directory="")
    # A module that is called twice reports everything twice.
    unique_problems = {
        (problem.id, problem.detail, problem.subject): problem for problem in shared.problems
    }
    problems = (
        problem
        for problem in unique_problems.values()
        # The blocks of a file with syntax errors are incomplete: only its syntax errors are
        # reported, by its reader.
        if problem.subject is None or problem.subject.filename not in shared.files_with_errors
    )
    return Configuration(module, settings, shared.files, shared.constants), sort_by_position(
        problems
    )


class _DuplicateBlockError(NamedTuple):
    """Error about a second block of one name: its id, and the names of the block and the rule."""

    diagnostic_id: str
    description: str
    rule: str


_VARIABLE: Final = _DuplicateBlockError(
    "duplicate-variable-declaration",
    "A variable named",
    "Variable names must be unique within a module.",
)
_LOCAL: Final = _DuplicateBlockError(
    "duplicate-local-value-definition",
    "A local value named",
    "Local value names must be unique within a module.",
)
_OUTPUT: Final = _DuplicateBlockError(
    "duplicate-output-definition", "An output named", "Output names must be unique within a module."
)
_CHECK: Final = _DuplicateBlockError(
    "duplicate-check", "A check block named", "Check blocks must be unique within each module."
)
_Named = TypeVar("_Named", Variable, LocalValue, Output, Check)


class _SharedDecoderState:
    """State shared by the decoders of all modules."""

    def __init__(
        self, read_module: ReadModule, known_types: KnownTypes, read_constants: ReadConstants
    ) -> None:
        """Keep the readers of modules and constants.

        Problems and files of all modules are collected here.
        """
        self.read_constants = read_constants
        self.read_module = read_module
        self.known_types = known_types
        # Of the root module, once read by `read_constants`.
        self.constants: Mapping[str, Value] = {}
        self.problems: list[Diagnostic] = []
        self.files: dict[str, SourceFile] = {}
        self.files_with_errors: set[str] = set()
        # Calls of modules so far, to limit them.
        self.call_count = 0


class _Decoder:
    """Decoder of one module; `chain` are the identities of the directories from the root to it."""

    def __init__(
        self,
        shared: _SharedDecoderState,
        source: ModuleFiles,
        path: tuple[str, ...],
        prefix: tuple[tuple[str, int], ...],
        chain: tuple[str, ...],
        call: tuple[CallHeader, Scope] | None = None,
    ) -> None:
        """Start an empty module.

        `prefix` orders its problems, `chain` detects cycles, `call` is None for the root.
        """
        # The call of the module, with the names of its caller.
        self.call = call
        # The names usable in the `source` of a module, set by `decode_module`.
        self.constants: Scope = EMPTY_SCOPE
        self.shared = shared
        self.source = source
        # Names of the calls from the root.
        self.path = path
        # Positions of these calls: file and byte.
        self.prefix = prefix
        # Directories of these calls, to detect a cycle.
        self.chain = chain
        self.problems = shared.problems
        self.has_syntax_errors = any(file.has_syntax_errors for file in source.files)
        self.variables: dict[str, Variable] = {}
        self.locals: dict[str, LocalValue] = {}
        self.outputs: dict[str, Output] = {}
        self.resources: dict[tuple[Mode, str, str], ResourceBlock] = {}
        self.calls: dict[str, ModuleCall] = {}
        self.providers: dict[str, ProviderBlock] = {}
        self.checks: dict[str, Check] = {}
        # The data blocks of checks.
        self.check_data_blocks: dict[ConfigAddress, ResourceBlock] = {}
        self.moved_blocks: list[MovedBlock] = []
        self.removed_blocks: list[RemovedBlock] = []
        self.imports: list[ImportBlock] = []

    def decode_module(self) -> tuple[Module, Settings]:
        """Decode the module and its settings.

        Override files are applied first, module calls are decoded last.
        """
        blocks, override_blocks = self._collect_primary_and_override_blocks()
        settings_blocks = [b for b, _ in blocks if b.type == "nexusform"]
        settings_overrides = [b for b in override_blocks if b.type == "nexusform"]
        settings = Settings()
        if settings_blocks or settings_overrides:
            from nexusform.configuration.settings_block import decode_settings

            # The later problems belong to the settings.
            previous_count = len(self.problems)
            settings = decode_settings(
                settings_blocks, settings_overrides, self.problems, is_root=not self.path
            )
            self.problems[previous_count:] = [
                replace(p, block="nexusform") for p in self.problems[previous_count:]
            ]
        # `locals` blocks of override files.
        locals_overrides: list[Block] = []
        # Else the block to override may be missing.
        if override_blocks and not self.has_syntax_errors:
            from nexusform.configuration.override_files import apply_overrides

            blocks, locals_overrides = apply_overrides(
                blocks, override_blocks, self.shared.known_types, self.problems
            )
        calls = [(block, location) for block, location in blocks if block.type == "module"]
        self._decode_blocks_of_module(
            (block, location) for block, location in blocks if block.type != "module"
        )
        for block in locals_overrides:
            self._override_local_values(block)
        # The source of a module call may use constant variables and locals.
        if calls or any(variable.const for variable in self.variables.values()):
            self.constants = self._evaluate_constants_for_module_sources()
        self._decode_blocks_of_module(calls)
        module = Module(
            path=self.path,
            directory=self.source.directory,
            variables=self.variables,
            locals=self.locals,
            outputs=self.outputs,
            resources=self.resources,
            calls=self.calls,
            providers=self.providers,
            moved_blocks=tuple(self.moved_blocks),
            removed_blocks=tuple(self.removed_blocks),
            imports=tuple(self.imports),
            checks=tuple(self.checks.values()),
        )
        return module, settings

    def _decode_blocks_of_module(self, blocks: Iterable[tuple[Block, BlockLocation]]) -> None:
        """Read blocks, and name each in its problems.

        Problems about the text of a called module do not name the block.
        """
        for block, location in blocks:
            # The later problems are those of this block.
            previous_count = len(self.problems)
            _READERS[block.type](self, block, location)
            header = format_block_header(block)
            for index, problem in enumerate(self.problems[previous_count:], start=previous_count):
                # The reader of a `module` block reads the called module, too: its problems name
                # blocks of their own.
                is_about_block = block.type != "module" or _is_about_block(problem, block)
                if is_about_block and not problem.block:
                    self.problems[index] = replace(problem, block=header)

    def _evaluate_constants_for_module_sources(self) -> Scope:
        """Return the scope of expressions in the `source` of modules.

        It has the locals and the constant variables.
        """
        from nexusform.configuration.variable_values import (
            ConstantVariableScope,
            evaluate_constant_variables,
        )

        constants = {name: variable for name, variable in self.variables.items() if variable.const}
        values: Mapping[str, Value] = {}
        # A called module: the call, in its caller's scope, sets the variables.
        if self.call is not None:
            values = evaluate_constant_variables(*self.call, constants, self.problems)
        elif constants:
            # The root module: users set the variables.
            values = unpack_result(self.shared.read_constants(constants), self.problems)
            # To be compared with the values of the run.
            self.shared.constants = values
        return ConstantVariableScope(self.variables, self.locals, values)

    def _collect_primary_and_override_blocks(
        self,
    ) -> tuple[list[tuple[Block, BlockLocation]], list[Block]]:
        """Collect all blocks of the ordinary and of the override files.

        Each block keeps its location.
        """
        blocks: list[tuple[Block, BlockLocation]] = []
        override_blocks: list[Block] = []
        for file in self.source.files:
            self.shared.files[file.source.name] = file.source
            if file.has_syntax_errors:
                self.shared.files_with_errors.add(file.source.name)
            parts = unpack_result(decode_body(file.body, ROOT_SCHEMA), self.problems)
            if file.is_override:
                override_blocks.extend(parts.blocks)
            else:
                location = BlockLocation(self.path, self.prefix, file.name, file.ignored_rules)
                blocks.extend((block, location) for block in parts.blocks)
        return blocks, override_blocks

    def _add_error(self, diagnostic_id: str, detail: str, span: Span, headline: str = "") -> None:
        self.problems.append(build_error(diagnostic_id, detail, span, headline=headline))

    def add_variable(self, block: Block, _location: BlockLocation) -> None:
        """Read a `variable` block."""
        from nexusform.configuration.value_blocks import decode_variable_block

        self._add_unique_declaration(
            self.variables, decode_variable_block(block, self.problems), _VARIABLE
        )

    def add_locals(self, block: Block, _location: BlockLocation) -> None:
        """Read a `locals` block."""
        from nexusform.configuration.value_blocks import decode_locals_block

        for local in decode_locals_block(block, self.problems):
            self._add_unique_declaration(self.locals, local, _LOCAL)

    def _override_local_values(self, block: Block) -> None:
        """Replace local values by those of a `locals` block of an override file.

        An undeclared name is an error.
        """
        from nexusform.configuration.value_blocks import decode_locals_block

        for local in decode_locals_block(block, self.problems):
            if local.name in self.locals:
                self.locals[local.name] = local
                continue
            detail = (
                f'There is no local value named "{local.name}". An override file can only '
                "override a local value "
                "that was already defined in a primary configuration file."
            )
            self._add_error("missing-base-local-value-definition-to-override", detail, local.span)

    def add_output(self, block: Block, _location: BlockLocation) -> None:
        """Read an `output` block."""
        from nexusform.configuration.value_blocks import decode_output_block

        self._add_unique_declaration(
            self.outputs, decode_output_block(block, self.problems), _OUTPUT
        )

    def _add_unique_declaration(
        self,
        declarations: dict[str, _Named],
        new: _Named | None,
        duplicate_error: _DuplicateBlockError,
        headline: str = "",
    ) -> None:
        """Add the first declaration of each name; a later one is an error."""
        if new is None:
            # It is reported as invalid.
            return
        earlier = declarations.setdefault(new.name, new)
        if earlier is not new:
            detail = describe_duplicate(
                duplicate_error.description, new.name, earlier.span, duplicate_error.rule
            )
            self._add_error(duplicate_error.diagnostic_id, detail, new.span, headline)

    def add_resource(self, block: Block, location: BlockLocation) -> None:
        """Read a `resource` or `data` block."""
        mode = MODES[block.type]
        resource = decode_resource_block(
            block, mode, location, self.shared.known_types, self.problems
        )
        if resource is not None:
            self._report_duplicate_resource(resource)
            self.resources.setdefault((mode, resource.type, resource.name), resource)

    def _report_duplicate_resource(self, resource: ResourceBlock) -> None:
        """Report an earlier block of the same type and name, also the data block of a check."""
        duplicate = self.resources.get((resource.mode, resource.type, resource.name))
        earlier = duplicate or self.check_data_blocks.get(resource.address)
        if earlier is None:
            # The first of its name.
            return
        position = describe_span(earlier.header_span)
        word, noun = (
            ("resource", "resource") if resource.mode == "managed" else ("data", "data resource")
        )
        detail = (
            f'A {resource.type} {noun} named "{resource.name}" was already declared at {position}. '
            "Resource names must be unique per type in each module."
        )
        headline = f'Duplicate {word} "{resource.type}" configuration'
        self._add_error("duplicate-resource", detail, resource.header_span, headline)

    def add_provider(self, block: Block, _location: BlockLocation) -> None:
        """Read a `provider` block.

        It is an error outside of the root module, or with name and alias of another.
        """
        from nexusform.configuration.module_blocks import decode_provider_block

        provider = decode_provider_block(block, self.problems)
        if provider is None:
            # It is reported as invalid.
            return
        if self.path:
            detail = (
                "Modules use the provider configurations of the root module. Move this block there."
            )
            self._add_error("invalid-provider-configuration", detail, provider.span)
        earlier = self.providers.setdefault(provider.key, provider)
        if earlier is provider:
            # The first of its name and alias.
            return
        position = describe_span(earlier.span)
        if provider.alias:
            detail = (
                f'A provider configuration for "{provider.name}" with alias "{provider.alias}" was '
                f"already given at {position}. Each configuration for the same provider must have "
                "a distinct alias."
            )
        else:
            detail = (
                f'A default (non-aliased) provider configuration for "{provider.name}" was already '
                f'given at {position}. If multiple configurations are required, set the "alias" '
                "argument for alternative configurations."
            )
        self._add_error("duplicate-provider-configuration", detail, provider.span)

    def add_moved_block(self, block: Block, _location: BlockLocation) -> None:
        """Read a `moved` block."""
        from nexusform.configuration.refactoring_blocks import decode_moved_block

        moved_block = decode_moved_block(block, self.problems)
        if moved_block is not None:
            self.moved_blocks.append(moved_block)

    def add_removed_block(self, block: Block, _location: BlockLocation) -> None:
        """Read a `removed` block."""
        from nexusform.configuration.refactoring_blocks import decode_removed_block

        removed_block = decode_removed_block(block, self.problems)
        if removed_block is not None:
            self.removed_blocks.append(removed_block)

    def add_import_block(self, block: Block, _location: BlockLocation) -> None:
        """Read an `import` block."""
        from nexusform.configuration.refactoring_blocks import decode_import_block

        import_block = decode_import_block(block, self.problems)
        if import_block is not None:
            self.imports.append(import_block)

    def add_check_block(self, block: Block, location: BlockLocation) -> None:
        """Read a `check` block: one or more asserts, and at most one data block."""
        from nexusform.configuration.value_blocks import decode_condition_blocks

        label = block.labels[0]
        if not check_name(label, "invalid-check-block-name", self.problems):
            # It is reported as invalid.
            return
        parts = unpack_result(decode_body(block.body, _CHECK_SCHEMA), self.problems)
        asserts = decode_condition_blocks(parts.blocks, "assert", self.problems)
        # `asserts` lacks incomplete ones.
        if not any(b.type == "assert" for b in parts.blocks):
            detail = "Check blocks must have at least one assert block."
            self._add_error("zero-assert-blocks", detail, block.header_span)
        data_block = find_single_block(parts.blocks, "data", self.problems)
        data: ResourceBlock | None = None
        if data_block is not None:
            # Only the asserts of the check can refer to it.
            data = decode_resource_block(
                data_block, "data", location, self.shared.known_types, self.problems
            )
        if data is not None:
            self._report_duplicate_resource(data)
            # The first of duplicates.
            self.check_data_blocks.setdefault(data.address, data)
        check = Check(label.value, data, asserts, block.header_span)
        self._add_unique_declaration(
            self.checks, check, _CHECK, f'Duplicate check "{label.value}" configuration'
        )

    def add_module_call(self, block: Block, location: BlockLocation) -> None:
        """Read a `module` block, and the whole called module.

        A second block of a name is reported, and not read.
        """
        from nexusform.configuration.module_blocks import decode_module_call

        header = decode_module_call(block, self.problems, self.constants)
        if header is None:
            # It is reported as invalid.
            return
        if header.name in self.calls:
            rule = "Module calls must have unique names within a module."
            detail = describe_duplicate(
                "A module call named", header.name, self.calls[header.name].header_span, rule
            )
            self._add_error("duplicate-module-call", detail, header.header_span)
            return
        module = self._decode_called_module(header, location, block)
        self.calls[header.name] = ModuleCall(**asdict(header), module=module)

    def _decode_called_module(
        self, header: CallHeader, location: BlockLocation, block: Block
    ) -> Module:
        """Decode the called module.

        Return an empty one, without a directory, if it cannot be read.
        """
        path = (*self.path, header.name)
        files = self._load_called_module_files(header, path)
        if files is None:
            return Module(path, directory="")
        # Positions of the calls down to this one.
        prefix = (*self.prefix, (location.file, block.span.start.byte))
        # Directories of the calls, to detect a cycle.
        chain = (*self.chain, files.identity)
        child = _Decoder(
            self.shared, files, path, prefix=prefix, chain=chain, call=(header, self.constants)
        )
        module = child.decode_module()[0]
        # With syntax errors, variables may be missing.
        if not child.has_syntax_errors:
            # Report unknown, deprecated and missing inputs of a call.
            from nexusform.configuration.module_blocks import MODULE_SCHEMA
            from nexusform.configuration.value_blocks import (
                build_deprecated_variable_warning,
                list_ignored_attributes,
            )

            for name, (expression, span) in header.inputs.items():
                if name not in module.variables:
                    hint = suggest_name(name, [*module.variables, *MODULE_SCHEMA.attributes])
                    detail = f'An argument named "{name}" is not expected here.{hint}'
                    self.problems.append(build_error("unsupported-argument", detail, span))
                    continue
                variable = module.variables[name]
                self.problems += list_ignored_attributes(expression, variable.type)
                if variable.deprecated and not is_null_literal(expression):
                    self.problems.append(build_deprecated_variable_warning(variable, span))
            for name, variable in module.variables.items():
                if variable.default is None and name not in header.inputs:
                    detail = f'The argument "{name}" is required, but no definition was found.'
                    self.problems.append(
                        build_error("missing-required-argument", detail, header.header_span)
                    )
        return module

    def _load_called_module_files(
        self, header: CallHeader, path: tuple[str, ...]
    ) -> ModuleFiles | None:
        """Return the files of a called module.

        Return None, with an error, if the module is unreadable, in a cycle or over a limit.
        """
        shared = self.shared
        shared.call_count += 1
        if shared.call_count > MAX_MODULE_CALLS:
            if shared.call_count == MAX_MODULE_CALLS + 1:  # reported once
                detail = f"The modules call each other more than {MAX_MODULE_CALLS:,} times in all."
                self._add_error("too-many-modules", detail, header.header_span)
            return None
        if len(self.path) >= MAX_MODULE_DEPTH:
            detail = f"The modules nest deeper than {MAX_MODULE_DEPTH} levels."
            self._add_error("too-many-modules", detail, header.header_span)
            return None
        # "": reported as invalid.
        files = shared.read_module(self.source, path, header) if header.source else None
        if files is None or files.identity not in self.chain:
            return files  # None: reported
        detail = (
            f'The module in "{files.directory}" calls itself, directly or through other modules: '
            f"module.{'.module.'.join([*self.path, header.name])}."
        )
        self._add_error("module-cycle", detail, header.source_span)
        return None


_READERS: Mapping[str, Callable[[_Decoder, Block, BlockLocation], None]] = {
    # Settings are decoded first.
    "nexusform": lambda _decoder, _block, _location: None,
    "variable": _Decoder.add_variable,
    "locals": _Decoder.add_locals,
    "output": _Decoder.add_output,
    "resource": _Decoder.add_resource,
    "data": _Decoder.add_resource,
    "provider": _Decoder.add_provider,
    "moved": _Decoder.add_moved_block,
    "removed": _Decoder.add_removed_block,
    "import": _Decoder.add_import_block,
    "check": _Decoder.add_check_block,
    "module": _Decoder.add_module_call,
}


def _is_about_block(problem: Diagnostic, block: Block) -> bool:
    """Check whether the problem is about the block's own text, and not about the called module."""
    subject = problem.subject
    span = block.span
    if subject is None or subject.filename != span.filename:
        return False
    return span.start.byte <= subject.start.byte <= span.end.byte
