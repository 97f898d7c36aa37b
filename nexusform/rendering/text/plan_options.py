"""How a plan is drawn as text."""

from __future__ import annotations

from msgspec import Struct, field

from nexusform.ports import Registries
from nexusform.rendering.report.placement_rows import Detail


class PlanTextOptions(Struct, frozen=True):
    """How a plan is drawn.

    `width` in terminal columns. `placements` is the flag of that name. `details` draws every argument in
    OpenTofu's layout, `terraform` under Terraform's own header. `hints` false leaves out the next step
    (NF_IN_AUTOMATION). `saved_to` names the plan file that was written, "" = none. `diagnostics` false
    leaves the plan's warnings out, `errors` false the boxes of its errors. `registries` gives the schemas.
    """

    colour: bool = False
    width: int = 80
    placements: Detail = Detail.CHANGED
    details: bool = False
    terraform: bool = False
    hints: bool = True
    saved_to: str = ""
    diagnostics: bool = True
    errors: bool = True
    compact_warnings: bool = False
    registries: Registries = field(default_factory=Registries)
