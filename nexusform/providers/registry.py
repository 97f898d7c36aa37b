"""The providers that configurations may name: one line each here, or in domain_table.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nexusform.configuration.configuration import DEFAULT_PROVIDER
from nexusform.domain_table import Loaded, targets_of_domains
from nexusform.providers.provider_kind import ProviderKind

PROVIDERS: Final[Mapping[str, ProviderKind]] = Loaded(
    {DEFAULT_PROVIDER: "nexusform.providers.simulated:PROVIDER", **targets_of_domains("providers")}
)
