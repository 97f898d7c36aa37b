"""Hand-written plans, and comparison with reviewed files.

NEXUSFORM_REWRITE_GOLDEN=1 rewrites the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from nexusform.domain_table import find_domains
from nexusform.plans.plan import Plan
from tests.planning.harness import add_consequences
from tests.rendering.change_plans import (
    blocks,
    drifted,
    every_action,
    every_shape,
    outputs_only,
    refresh_only,
    rich_document,
    some_state,
)
from tests.rendering.pieces import MAIN, REGISTRIES, D, address, change, span_of
from tests.rendering.placement_plans import added_cluster, changed_placements
from tests.rendering.real_plans import (
    NEEDS,
    RealPlan,
    copy_example,
    plan_directory,
    plan_evacuation,
    plan_half_full_site,
    plan_repair,
)

GOLDEN = Path(__file__).parent / "golden"


def fleet_and_pods() -> Plan:
    """Import the fleet plans on first use, for tests marked `of_domains("fleet")`."""
    from tests.rendering.workload_plans import fleet_and_pods as made

    return made()


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8"), f"differs from {file}"

    return compare


def _complete(make: Callable[[], Plan]) -> Callable[[], Plan]:
    """Return a function that makes a plan with its consequences."""
    return lambda: add_consequences(make())


@pytest.fixture
def plans() -> SimpleNamespace:
    makers = (
        added_cluster,
        changed_placements,
        fleet_and_pods,
        every_action,
        every_shape,
        blocks,
        drifted,
        refresh_only,
        outputs_only,
    )
    return SimpleNamespace(
        **{make.__name__: _complete(make) for make in makers},
        rich_document=rich_document,
        some_state=some_state,
        address=address,
        change=change,
        span_of=span_of,
        registries=REGISTRIES,
        files={MAIN.name: MAIN},
        d=D,
    )


class ExamplePlans(Mapping[str, RealPlan]):
    """Plans by name, each made at its first use."""

    def __init__(self, makers: Mapping[str, Callable[[], RealPlan]]) -> None:
        self._makers = makers
        self._plans: dict[str, RealPlan] = {}

    def __getitem__(self, name: str) -> RealPlan:
        if name not in self._plans:
            self._plans[name] = self._makers[name]()
        return self._plans[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, RealPlan]:
    """Plans of all examples with installed domains, and of a site with moved and removed VMs."""
    where = tmp_path_factory.mktemp("examples")
    plans = {
        "quickstart": lambda: plan_directory(copy_example("quickstart", where)),
        "inventory": lambda: plan_directory(copy_example("inventory", where)),
        "fleet": lambda: plan_directory(copy_example("fleet", where)),
        "end-to-end": lambda: plan_directory(copy_example("end-to-end", where)),
        "hardware-aware": lambda: plan_directory(copy_example("hardware-aware", where)),
        "nexus-document": lambda: plan_half_full_site(where),
        "repaired": lambda: plan_repair(where),
        "evacuated": lambda: plan_evacuation(where / "full"),
        "separation": lambda: plan_directory(
            copy_example("separation", where), "-var", "apart=true"
        ),
        "nexus-document-from-nothing": lambda: plan_directory(
            copy_example("nexus-document", where / "from-nothing")
        ),
    }
    installed = set(find_domains())
    return ExamplePlans(
        {name: made for name, made in plans.items() if NEEDS.get(name, set()) <= installed}
    )
