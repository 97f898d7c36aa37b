"""Kind of provider."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias

from msgspec import Struct

from nexusform.files.regular_files import Confinement
from nexusform.interfaces.plugins import Provider
from nexusform.schemas.block_schema import BlockSchema

ProviderFactory: TypeAlias = Callable[[Mapping[str, Any], str, ExitStack, Confinement], Provider]


class ProviderDefinition(Struct, frozen=True):
    """Kind of provider: its settings and its factory.

    `make(settings, directory, exit_stack, confinement)` takes the evaluated settings as plain
    data, the root module's directory, the stack of cleanup callbacks, and the permitted
    locations of files in settings. It raises ProviderProblem. `displayed_settings` are settings
    returned as attributes of objects and displayed: they cannot be sensitive.
    `list_server_urls(settings)` returns the URLs that receive the operator's credentials: in a
    confined run all of them must be allowed, and `alternative` describes the alternative. It
    raises ProviderProblem. `list_rejection_reasons(type, attributes)` returns the reasons why
    the platform will reject a new object.
    """

    settings: BlockSchema
    make: ProviderFactory
    displayed_settings: frozenset[str] = frozenset()
    list_server_urls: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _settings: ()
    alternative: str = ""
    list_rejection_reasons: Callable[[str, Mapping[str, Any]], Sequence[str]] = (
        lambda _type, _attributes: ()
    )
