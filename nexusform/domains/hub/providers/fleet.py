"""The `fleet` provider: a fleet hub that is there, judged by dry runs, written by server-side apply."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

from nexusform.domains.hub.types.fleet_hub import CONTEXT, KUBECONFIG
from nexusform.kubernetes.quantity import parse_duration
from nexusform.ports import Provider, ProviderProblem
from nexusform.providers.registry import ProviderKind
from nexusform.regular_files import FREE, Confinement
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import BOOL, STRING

NAME: Final = "nexusform.dev/builtin/fleet"
AUTO: Final = "auto"
JUDGES: Final = (AUTO, "require", "off")

SETTINGS: Final = BlockSchema(
    {
        "kubeconfig": KUBECONFIG,
        "context": CONTEXT,
        "field_manager": Attribute(
            STRING,
            "Field manager name on the hub. A name used before keeps its fields.",
            optional=True,
            default="nexusform",
            pattern=r"[\x21-\x7e]{1,128}",
            pattern_hint="1 to 128 characters without spaces",
        ),
        "judge": Attribute(
            STRING,
            "Validate plans by server-side dry run: auto (if possible), require, off. Needs write "
            "permissions. Off in a confined run, unless -allow-remote names the hub.",
            optional=True,
            default=AUTO,
            choices=JUDGES,
        ),
        "read_only": Attribute(
            BOOL,
            "Send nothing. Changes are made outside nexusform; apply checks them.",
            optional=True,
            default=False,
        ),
        "timeout": Attribute(
            STRING,
            "Timeout of a step, such as 30m. Continue later with `apply -resume`.",
            optional=True,
            default="30m",
            pattern=r"(?=.*[1-9])([0-9]{1,9}(\.[0-9]{1,9})?[smh])+",
            pattern_hint="a duration such as 30m",
        ),
    },
    {},
    "Reads a fleet hub, validates plans by server-side dry run, and writes fleet objects and labels and "
    "taints of members.",
)


def make(
    settings: Mapping[str, Any], _directory: str, leaving: ExitStack, confinement: Confinement = FREE
) -> Provider:
    """The provider for evaluated settings; the hub is not asked before a plan asks what stands. Raises
    ProviderProblem.
    """
    from nexusform.domains.hub.api.hub import Asked, HubProblem, way_to_hub
    from nexusform.domains.hub.providers.fleet_hub import FleetHub
    from nexusform.domains.hub.providers.hub_terms import Terms

    timeout = parse_duration(str(settings["timeout"]))
    assert not isinstance(timeout, str)  # its pattern says so
    try:
        way = way_to_hub(settings, confined=bool(confinement.root))
    except HubProblem as problem:
        raise ProviderProblem(str(problem)) from None
    terms = Terms(
        manager=str(settings["field_manager"]),
        judge=str(settings["judge"]),
        read_only=settings.get("read_only") is True,
        timeout=timeout,
        confined=bool(confinement.root),
    )
    asked = Asked(way)
    leaving.callback(asked.close)
    return FleetHub(NAME, asked, terms)


PROVIDER: Final = ProviderKind(SETTINGS, make)
