"""What a kind of provider says of itself, and those that configurations may name: one line each here, or in
domain_table.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.configuration.declared.configuration import DEFAULT_PROVIDER
from nexusform.domain_table import Loaded, targets_of_domains
from nexusform.ports import Provider
from nexusform.regular_files import Confinement
from nexusform.schema import BlockSchema

Make: TypeAlias = Callable[[Mapping[str, Any], str, ExitStack, Confinement], Provider]


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


PROVIDERS: Final[Mapping[str, ProviderKind]] = Loaded(
    {DEFAULT_PROVIDER: "nexusform.providers.simulated:PROVIDER", **targets_of_domains("providers")}
)
