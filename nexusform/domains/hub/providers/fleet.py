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
            "The name under which the hub notes what nexusform wrote. One that was used goes on owning it.",
            optional=True,
            default="nexusform",
            pattern=r"[\x21-\x7e]{1,128}",
            pattern_hint="1 to 128 characters without spaces",
        ),
        "judge": Attribute(
            STRING,
            "Whether the hub judges plans by dry runs: auto (where it can be asked), require, off. A dry run "
            "needs the rights of the write. Off in a confined run, unless -allow-remote names the hub.",
            optional=True,
            default=AUTO,
            choices=JUDGES,
        ),
        "read_only": Attribute(
            BOOL,
            "Send nothing: what a plan asks for is done by somebody else, and found done by apply.",
            optional=True,
            default=False,
        ),
        "timeout": Attribute(
            STRING,
            "How long a step is waited for, such as 30m. Then the apply ends, and `apply -resume` goes on.",
            optional=True,
            default="30m",
            pattern=r"(?=.*[1-9])([0-9]{1,9}(\.[0-9]{1,9})?[smh])+",
            pattern_hint="a duration such as 30m",
        ),
    },
    {},
    "Reads a fleet hub as it is now, asks it what it makes of a plan, and writes placements, overrides, "
    "budgets, strategies, runs, approvals, evictions, objects, and labels and taints of members there.",
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
