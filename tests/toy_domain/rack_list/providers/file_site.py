"""Provider `file_site`: the site is the file site.json beside the configuration."""

from contextlib import ExitStack
from typing import Any

from nexusform.files.regular_files import Confinement
from nexusform.interfaces.plugins import Provider
from nexusform.providers.provider_definition import ProviderDefinition
from nexusform.providers.simulated import make_provider
from nexusform.schemas.block_schema import BlockSchema


def _make(
    _settings: Any, directory: str, exit_stack: ExitStack, confinement: Confinement
) -> Provider:
    return make_provider({"reality": "site.json"}, directory, exit_stack, confinement)


PROVIDER = ProviderDefinition(BlockSchema({}), _make)
