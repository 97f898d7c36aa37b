"""Tests of the values of an instance in expressions."""

from __future__ import annotations

from nexusform.planning.name_resolution.repetition import InstanceView
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import STRING, ListType
from nexusform.values.typed_value import UNKNOWN, Refinement, get_refinement
from tests.planning.harness import list_errors, plan

_SCHEMA = BlockSchema({"keys": AttributeSchema(ListType(STRING), "Keys.", optional=True)}, {})
_BEGINNING = Refinement(not_null=True, prefix="a-")


def test_refinement_is_visible_in_attribute_and_whole_value() -> None:
    view = InstanceView({"keys": ["x", UNKNOWN]}, (), _SCHEMA, None, ((("keys", 1), _BEGINNING),))
    keys = view.get_attribute("keys")
    assert keys is not None
    assert get_refinement(keys.raw[1]) == _BEGINNING
    assert get_refinement(view.get_value().raw["keys"].raw[1]) == _BEGINNING


PREFIXED = """
resource "nexus_site" "s" {
  name = "lab"
}
resource "nexus_rack" "r" {
  count         = 2
  name          = "r${count.index}"
  site_id       = resource.nexus_site.s.id
  machine_count = 1
  depends_on    = [resource.nexus_site.s]
}
resource "nexus_rack" "t" {
  count         = 2
  name          = "t${count.index}"
  site_id       = resource.nexus_rack.r[0].site_id
  machine_count = 1
  lifecycle {
    replace_triggered_by = [resource.nexus_rack.r[count.index], resource.nexus_site.s]
  }
}
output "names" {
  value = [resource.nexus_rack.r[*].name, [for resource in [{ a = { b = 1 } }] : resource.a.b]]
}
moved {
  from = resource.nexus_site.old
  to   = resource.nexus_site.s
}
"""


def test_resource_prefix_of_a_reference_has_no_meaning() -> None:
    """`resource.TYPE.NAME` is `TYPE.NAME`, as in Terraform.

    A variable of a `for` may be named `resource`.
    """
    prefixed = plan(PREFIXED)
    plain = plan(PREFIXED.replace("resource.nexus_", "nexus_"))
    assert not list_errors(prefixed)
    assert [each.after for each in prefixed.plan.changes] == [
        each.after for each in plain.plan.changes
    ]
    assert [each.after for each in prefixed.plan.root_values.outputs] == [
        each.after for each in plain.plan.root_values.outputs
    ]
    mistake = 'output "o" {\n  value = resource.nexus_rack.x\n}\n'
    (problem,) = list_errors(plan(PREFIXED + mistake))
    assert problem.id == "reference-to-undeclared-resource"
