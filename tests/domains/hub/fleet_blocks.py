"""Configuration blocks: objects of a namespace on a hub, and their placement."""

from __future__ import annotations

from textwrap import dedent, indent

HEAD = 'provider "fleet" {}\ndata "fleet_hub" "hub" {}\n'
_APP = """
resource "fleet_hub_manifest" "{name}" {{
  provider  = fleet
  yaml_body = <<-Y
    apiVersion: v1
    kind: Namespace
    metadata: {{name: {name}}}
    ---
{content}
  Y
}}
resource "fleet_cluster_resource_placement" "{name}" {{
  provider = fleet
  resource_selector {{
    version = "v1"
    kind    = "Namespace"
    name    = "{name}"
  }}
  policy {{
{policy}
  }}
{strategy}  depends_on = [fleet_hub_manifest.{name}]
}}
"""
_SELECTOR = """\
        label_selector {{
          match_labels = {{ {label} = "{value}" }}
        }}"""
_AFFINITY = """
affinity {{
  cluster_affinity {{
    {rule} {{
      {head}{block} {{
{selector}
      }}
    }}
  }}
}}
"""


def build_app(name: str, content: str, policy: str, strategy: str = "") -> str:
    """Return a namespace with an object (YAML), and the placement of both."""
    content, policy, strategy = (
        indent(dedent(text).strip("\n"), " " * width)
        for text, width in ((content, 4), (policy, 4), (strategy, 2))
    )
    return _APP.format(
        name=name, content=content, policy=policy, strategy=f"{strategy}\n" if strategy else ""
    )


def build_preference(weight: int, label: str, value: str) -> str:
    """Return the preference for clusters with a label."""
    rule = "preferred_during_scheduling_ignored_during_execution"
    selector = _SELECTOR.format(label=label, value=value)
    return _AFFINITY.format(
        rule=rule, head=f"weight = {weight}\n      ", block="preference", selector=selector
    )


def build_requirement(label: str, value: str) -> str:
    """Return the requirement of clusters with a label."""
    rule = "required_during_scheduling_ignored_during_execution"
    selector = _SELECTOR.format(label=label, value=value)
    return _AFFINITY.format(rule=rule, head="", block="cluster_selector_term", selector=selector)
