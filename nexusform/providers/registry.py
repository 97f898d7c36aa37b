"""Kinds of providers: one line each here, or in domain_table.py."""

from collections.abc import Mapping
from typing import Final

from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER
from nexusform.domain_table import LazyTable, collect_loaders
from nexusform.providers.provider_definition import ProviderDefinition


def _load_simulated() -> ProviderDefinition:
    from nexusform.providers.simulated import PROVIDER

    return PROVIDER


PROVIDERS: Final[Mapping[str, ProviderDefinition]] = LazyTable(
    {DEFAULT_PROVIDER: _load_simulated, **collect_loaders("providers")}
)
