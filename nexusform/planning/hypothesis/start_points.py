"""Start points of hypothetical plans without a configuration: objects of a state or plan."""

from collections.abc import Iterable
from typing import NoReturn

from nexusform.configuration.declarations.configuration import Configuration, Module, Settings
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.vm_planning.site_plans import SiteObject
from nexusform.state.objects import InstanceState, ObjectState, State


class _NoFiles:
    """File access of a plan without a configuration: nothing refers to a file."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"a plan without a configuration reads no file ({name})")


def build_snapshot_request(
    objects: Iterable[SiteObject], registries: PluginRegistries, catalogue: str, now: str
) -> PlanRequest:
    """Return the request of the plan that keeps these objects, from a state or after a plan.

    It has no configuration: only edits change something. The platform re-creates lost nodes of NKS
    clusters. Other lost VMs stay down. `catalogue` is the version of the SKU catalogue.
    """
    instances = {
        item.address: InstanceState(
            ObjectState(item.attributes, item.creation, private=item.note or {})
        )
        for item in objects
    }
    return PlanRequest(
        configuration=Configuration(Module((), "."), Settings(), {}),
        variables={},
        state=State(catalogue=catalogue, instances=instances),
        registries=registries,
        files=_NoFiles(),
        now=now,
        keeps_objects=True,
        samples=0,
        includes_remedies=False,
    )
