"""The `fleet` provider.

It reads a fleet hub, validates plans by server-side dry runs, and writes by server-side apply.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

from nexusform.domains.hub.types.fleet_hub import CONTEXT, KUBECONFIG
from nexusform.files.regular_files import UNCONFINED, Confinement
from nexusform.interfaces.plugins import Provider, ProviderProblem
from nexusform.kubernetes.quantity import parse_duration
from nexusform.providers.kubeconfig import KubeconfigTrust
from nexusform.providers.provider_definition import ProviderDefinition
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import BOOL, STRING

NAME: Final = "nexusform.dev/builtin/fleet"
AUTOMATIC: Final = "auto"
DRY_RUN_MODES: Final = (AUTOMATIC, "require", "off")

SETTINGS: Final = BlockSchema(
    {
        "kubeconfig": KUBECONFIG,
        "context": CONTEXT,
        "field_manager": AttributeSchema(
            STRING,
            "Field manager name on the hub. A name used before keeps its fields.",
            optional=True,
            default="nexusform",
            pattern=r"[\x21-\x7e]{1,128}",
            pattern_hint="1 to 128 characters without spaces",
        ),
        "dry_run": AttributeSchema(
            STRING,
            "Validate plans by server-side dry run: auto (if possible), require, off. Needs write "
            "permissions. Off in a sandboxed run, unless -allow-remote names the hub.",
            optional=True,
            default=AUTOMATIC,
            choices=DRY_RUN_MODES,
        ),
        "read_only": AttributeSchema(
            BOOL,
            "Send nothing. Changes are made outside nexusform; apply checks them.",
            optional=True,
            default=False,
        ),
        "timeout": AttributeSchema(
            STRING,
            "Timeout of a step, such as 30m. Continue later with `apply -resume`.",
            optional=True,
            default="30m",
            pattern=r"(?=.*[1-9])([0-9]{1,9}(\.[0-9]{1,9})?[smh])+",
            pattern_hint="a duration such as 30m",
        ),
    },
    blocks={},
    description="Reads a fleet hub, validates plans by server-side dry run, and writes fleet "
    "objects and labels and taints of members.",
)


def make_provider(
    settings: Mapping[str, Any],
    _directory: str,
    exit_stack: ExitStack,
    confinement: Confinement = UNCONFINED,
) -> Provider:
    """Create the provider for evaluated settings, without contact to the hub before a read.

    Raises ProviderProblem.
    """
    from nexusform.domains.hub.api.hub_client import HubConnection, HubProblem, resolve_hub_location
    from nexusform.domains.hub.providers.hub_provider import FleetHubProvider
    from nexusform.domains.hub.providers.object_access import HubOptions

    timeout = parse_duration(str(settings["timeout"]))
    # Its pattern ensures this.
    assert not isinstance(timeout, str)
    try:
        location = resolve_hub_location(settings, KubeconfigTrust(confinement))
    except HubProblem as problem:
        raise ProviderProblem(str(problem)) from None
    options = HubOptions(
        manager=str(settings["field_manager"]),
        validate_changes=str(settings["dry_run"]),
        is_read_only=settings.get("read_only") is True,
        timeout=timeout,
    )
    connection = HubConnection(location)
    exit_stack.callback(connection.close)
    return FleetHubProvider(NAME, connection, options)


PROVIDER: Final = ProviderDefinition(SETTINGS, make_provider)
