"""The providers that configurations may name, one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.applying.standing import DEFAULT_PROVIDER
from nexusform.domains.azure.providers import azure, azure_export
from nexusform.ports import Provider
from nexusform.providers import simulated
from nexusform.regular_files import Confinement
from nexusform.schema import BlockSchema

Make: TypeAlias = Callable[[Mapping[str, Any], str, ExitStack, Confinement], Provider]

DEFAULT: Final = DEFAULT_PROVIDER


class ProviderKind(Struct, frozen=True):
    """A kind of provider: its settings and how it is made.

    `make(settings, directory, leaving, confinement)`: evaluated settings as plain data, the root module's
    directory, where to register what must be closed, and where files that settings name may be. Raises
    ProviderProblem. `answers` are settings that come back as attributes of objects, which are shown: they
    cannot be sensitive. `addresses(settings)` are the URLs to which settings lead the operator's credentials:
    in a confined run all of them must be allowed, and `instead` says how to do without. Raises
    ProviderProblem.
    """

    settings: BlockSchema
    make: Make
    answers: frozenset[str] = frozenset()
    addresses: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _settings: ()
    instead: str = ""


PROVIDERS: Final[Mapping[str, ProviderKind]] = {
    "simulated": ProviderKind(simulated.SETTINGS, simulated.make, frozenset({"answer"})),
    "azure": ProviderKind(
        azure.SETTINGS, azure.make, addresses=azure.addresses, instead=azure.WITHOUT_ADDRESS
    ),
    "azure_export": ProviderKind(azure_export.SETTINGS, azure_export.make),
}
