"""Checked configuration: the declarations of a module tree, still unevaluated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import SourceFile, Span
from nexusform.language.syntax.syntax_nodes import Block, Body, Expression, JsonBody, Traversal
from nexusform.resources.address import MODE_KEYWORDS, AddressPattern, ConfigAddress, Mode
from nexusform.schemas.value_types import DYNAMIC, Type
from nexusform.values.typed_value import EPHEMERAL, NO_MARKS, SENSITIVE, Value

AnyBody: TypeAlias = Body | JsonBody


class Condition(Struct, frozen=True):
    """`condition` with its `error_message`: a validation, pre- or postcondition, or assert."""

    condition: Expression
    error_message: Expression
    span: Span


def get_declared_marks(*, sensitive: bool, ephemeral: bool) -> frozenset[str]:
    """Return the marks of a declared value.

    Sensitive values are hidden, ephemeral ones are not saved.
    """
    return (SENSITIVE if sensitive else NO_MARKS) | (EPHEMERAL if ephemeral else NO_MARKS)


class Variable(Struct, frozen=True):
    """`variable` block.

    `type` contains optional attributes and their defaults; `default` None means required.
    `is_typed` is true if a type is declared, even if it is `any`. `deprecated` is the message for
    users, "" for none. The value of an `ephemeral` variable is in no plan, state or journal. The
    value of a `const` variable is known when modules are read.
    """

    name: str
    type: Type
    default: Value | None
    description: str
    sensitive: bool
    nullable: bool
    validations: tuple[Condition, ...]
    span: Span
    is_typed: bool = True
    deprecated: str = ""
    ephemeral: bool = False
    const: bool = False

    @property
    def marks(self) -> frozenset[str]:
        """Marks of its value, such as sensitive."""
        return get_declared_marks(sensitive=self.sensitive, ephemeral=self.ephemeral)


class LocalValue(Struct, frozen=True):
    """Name of a `locals` block."""

    name: str
    expression: Expression
    span: Span


class Output(Struct, frozen=True):
    """`output` block."""

    name: str
    expression: Expression
    description: str
    sensitive: bool
    depends_on: tuple[Traversal, ...]
    preconditions: tuple[Condition, ...]
    span: Span
    deprecated: str = ""
    ephemeral: bool = False
    type: Type = DYNAMIC

    @property
    def marks(self) -> frozenset[str]:
        """Marks of its value, such as sensitive."""
        return get_declared_marks(sensitive=self.sensitive, ephemeral=self.ephemeral)


class Lifecycle(Struct, frozen=True):
    """`lifecycle` block.

    `ignore_changes` are relative paths (`agent_pool["np1"].count`) as steps. `ignore_all` is true
    for the keyword `all`. `prevent_destroy_condition` is the expression of `prevent_destroy`,
    unless it is constant. `keeps_object` is true for `destroy = false`.
    """

    create_before_destroy: bool = False
    prevent_destroy: bool = False
    keeps_object: bool = False
    prevent_destroy_condition: Expression | None = None
    ignore_all: bool = False
    ignore_changes: tuple[tuple[str | int, ...], ...] = ()
    ignore_changes_spans: tuple[Span, ...] = ()
    replace_triggered_by: tuple[Expression, ...] = ()
    preconditions: tuple[Condition, ...] = ()
    postconditions: tuple[Condition, ...] = ()
    span: Span | None = None
    enabled: Expression | None = None


class ResourceBlock(Struct, frozen=True):
    """`resource` or `data` block.

    `body` is the remaining part for the type's schema, without meta-arguments and lifecycle.
    `position` orders blocks: (file name, byte); blocks of a module have the position of its module
    call, so positions are compared as nested tuples. `ignored_rules` are the lint ids of `#
    nexusform:ignore ID` comments before the block and inside of it, by the number of the line that
    follows the comment.
    """

    address: ConfigAddress
    mode: Mode
    type: str
    name: str
    body: AnyBody
    count: Expression | None
    for_each: Expression | None
    depends_on: tuple[Traversal, ...]
    provider: str
    lifecycle: Lifecycle
    span: Span
    header_span: Span
    position: tuple[tuple[str, int], ...]
    ignored_rules: Mapping[int, frozenset[str]] = field(default_factory=dict)

    @property
    def enabled(self) -> Expression | None:
        """Condition for creating its only instance; None if it is always created."""
        return self.lifecycle.enabled

    @property
    def header(self) -> str:
        """`resource "type" "name"`, as displayed by diagnostics."""
        return f'{MODE_KEYWORDS[self.mode]} "{self.type}" "{self.name}"'


def get_repetition_argument(count: object, for_each: object) -> str:
    """Return the name of the configured repetition argument; "" without one."""
    if count is not None:
        return "count"
    return "" if for_each is None else "for_each"


class CallHeader(Struct, frozen=True):
    """`module` block before its module is read.

    `source` is "" if it is invalid, `version` are its version constraints ("": none), `inputs` are
    expressions by name.
    """

    name: str
    source: str
    version: str
    source_span: Span
    inputs: Mapping[str, tuple[Expression, Span]]
    count: Expression | None
    for_each: Expression | None
    depends_on: tuple[Traversal, ...]
    span: Span
    header_span: Span
    enabled: Expression | None


class ModuleCall(CallHeader, frozen=True):
    """`module` block with the called module."""

    module: Module


# Provider of blocks without a provider.
DEFAULT_PROVIDER: Final = "simulated"


class ProviderBlock(Struct, frozen=True):
    """`provider` block; `key` is `name` or `name.alias`."""

    key: str
    name: str
    alias: str
    body: AnyBody
    span: Span


class MovedBlock(Struct, frozen=True):
    """`moved` block: addresses relative to its module."""

    source: AddressPattern
    target: AddressPattern
    span: Span


class RemovedBlock(Struct, frozen=True):
    """`removed` block; `destroy` false removes the object from state only."""

    source: AddressPattern
    destroy: bool
    span: Span


class ImportBlock(Struct, frozen=True):
    """`import` block: traversal of `to`, id, and provider.

    The provider is `name` or `name.alias`, "" if not set.
    """

    to: Expression
    id: Expression
    for_each: Expression | None
    span: Span
    provider: str = ""


class Check(Struct, frozen=True):
    """`check` block; failures are warnings."""

    name: str
    data: ResourceBlock | None
    asserts: tuple[Condition, ...]
    span: Span


class Module(Struct, frozen=True):
    """One module: all declarations of the files of its directory.

    `path` is the static path of call names from the root, `directory` the directory of its files,
    as given to the user (path.module).
    """

    path: tuple[str, ...]
    directory: str
    variables: Mapping[str, Variable] = field(default_factory=dict)
    locals: Mapping[str, LocalValue] = field(default_factory=dict)
    outputs: Mapping[str, Output] = field(default_factory=dict)
    resources: Mapping[tuple[Mode, str, str], ResourceBlock] = field(default_factory=dict)
    calls: Mapping[str, ModuleCall] = field(default_factory=dict)
    providers: Mapping[str, ProviderBlock] = field(default_factory=dict)
    moved_blocks: tuple[MovedBlock, ...] = ()
    removed_blocks: tuple[RemovedBlock, ...] = ()
    imports: tuple[ImportBlock, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def all_blocks(self) -> list[ResourceBlock]:
        """The resource and data blocks, and the data blocks of checks."""
        return [
            *self.resources.values(),
            *(check.data for check in self.checks if check.data is not None),
        ]


# The two labels of a method's or key provider's block: its kind and its name.
MethodName = tuple[str, str]


class KeyProviderBlock(Struct, frozen=True):
    """`key_provider` block: its labels and its settings as text."""

    kind: str
    name: str
    settings: Mapping[str, str]
    span: Span


class EncryptionTarget(Struct, frozen=True):
    """Encryption of one kind of document: the `method` for writing, and fallbacks for reading."""

    method: MethodName
    fallbacks: tuple[MethodName, ...] = ()
    enforced: bool = False


class Encryption(Struct, frozen=True):
    """`encryption` block.

    `methods` maps each method to its key provider (None: no key). `readers` apply to states of
    other configurations, by data block name ("": default).
    """

    key_providers: Mapping[MethodName, KeyProviderBlock] = field(default_factory=dict)
    methods: Mapping[MethodName, MethodName | None] = field(default_factory=dict)
    state: EncryptionTarget | None = None
    plan: EncryptionTarget | None = None
    readers: Mapping[str, EncryptionTarget] = field(default_factory=dict)


class Settings(Struct, frozen=True):
    """`nexusform` settings block of the root module.

    `backend` is type and body (None = local). `ignored_rules` are the lint ids in `ignore`, each
    with the place of its list.
    """

    sku_catalogue: str = ""
    sku_catalogue_span: Span | None = None
    backend_type: str = "local"
    backend: Block | None = None
    ignored_rules: Mapping[str, Span] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)
    encryption: Encryption | None = None
    span: Span | None = None


class Configuration(Struct, frozen=True):
    """Module tree and its settings.

    `files` holds every file read, by name, for the source lines of diagnostics and for the
    snapshot in a saved plan. `constants` are the values of constant variables of the root module
    used to read modules.
    """

    root: Module
    settings: Settings
    files: Mapping[str, SourceFile]
    constants: Mapping[str, Value] = field(default_factory=dict)

    @property
    def file_texts(self) -> dict[str, str]:
        """Texts of the files by name."""
        return {name: source.text for name, source in self.files.items()}
