"""Options of the text of a plan."""

from __future__ import annotations

from msgspec import Struct, field

from nexusform.interfaces.plugins import PluginRegistries
from nexusform.rendering.report.placement_rows import PlacementDetail


class PlanTextOptions(Struct, frozen=True):
    """Options of the text of a plan. `width` is in terminal columns. `placements` is the flag of that name.
    `details` shows every argument in OpenTofu's layout, `terraform` uses Terraform's own header. Without
    `hints` (NF_IN_AUTOMATION) no commands are suggested, without `next_step` no apply command. `saved_path`
    is the written plan file, "" = none. `take_ownership`: the plan used that flag, so its apply needs it too.
    Without `diagnostics` warnings are omitted, without `errors` the boxes of errors. `registries` supplies
    the schemas.
    """

    colour: bool = False
    width: int = 80
    placements: PlacementDetail = PlacementDetail.CHANGED
    details: bool = False
    terraform: bool = False
    hints: bool = True
    next_step: bool = True
    saved_path: str = ""
    take_ownership: bool = False
    diagnostics: bool = True
    errors: bool = True
    registries: PluginRegistries = field(default_factory=PluginRegistries)

    @property
    def apply_command(self) -> str:
        """The command that applies the plan, without the file."""
        return "apply -take-ownership" if self.take_ownership else "apply"
