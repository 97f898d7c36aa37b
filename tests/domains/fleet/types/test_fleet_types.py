"""Tests of fleet types: rejections with their lines; manifests and blocks are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.diagnostics.diagnostic import Severity
from nexusform.domains.fleet.importers.fleet_records import FleetPlacement, FleetUpdateStrategy
from nexusform.domains.fleet.scheduling.bindings import BindingState
from nexusform.domains.fleet.types.fleet_schemas import PLACEMENT_VALUES
from nexusform.state.attribute_validation import validate_attributes
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.directory_validation import validate_directory
from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_manifest_placement,
    build_member,
    build_placement,
)
from tests.domains.fleet.planning.test_hub_stories import Dump
from tests.planning.harness import (
    attributes,
    build_all_types,
    build_state,
    get_line,
    list_errors,
    plan,
    require_success,
)

KIND = "fleet_cluster_resource_placement"


def list_rejections(text: str) -> list[tuple[str, int]]:
    """Return the line of every error as written, without its number."""
    result = plan(text)
    lines = text.splitlines()
    return [(e.detail, lines[get_line(e)[1] - 1].strip()) for e in list_errors(result)]  # type: ignore[misc]


def build_required_affinity(term: str) -> str:
    return f"""
    affinity {{
      cluster_affinity {{
        required_during_scheduling_ignored_during_execution {{
          cluster_selector_term {{
            {term}
          }}
        }}
      }}
    }}
"""


def build_preferred_affinity(term: str, weight: float = 20) -> str:
    return f"""
    placement_type     = "PickN"
    number_of_clusters = 1
    affinity {{
      cluster_affinity {{
        preferred_during_scheduling_ignored_during_execution {{
          weight = {weight}
          preference {{
            {term}
          }}
        }}
      }}
    }}
"""


def build_properties(*conditions: tuple[str, str]) -> str:
    blocks = "".join(
        f"""
match_expression {{
  name     = "kubernetes-fleet.io/node-count"
  operator = "{operator}"
  values   = ["{value}"]
}}"""
        for operator, value in conditions
    )
    return f"property_selector {{{blocks}\n}}"


SORTER = """property_sorter {
              name       = "kubernetes-fleet.io/node-count"
              sort_order = "Descending"
            }"""


@pytest.mark.parametrize(
    ("policy", "said", "line"),
    [
        ('cluster_names = ["a"]', "Cluster names needs to be empty", 'cluster_names = ["a"]'),
        ("number_of_clusters = 3", "Number of clusters must be nil", "number_of_clusters = 3"),
        (
            (
                'placement_type = "PickFixed"\ncluster_names = ["a"]\ntoleration {\noperator = '
                '"Exists"\n}'
            ),
            "Tolerations needs to be empty",
            "toleration {",
        ),
        (
            (
                'placement_type = "PickFixed"\ncluster_names = ["a"]\naffinity {\n'
                "cluster_affinity {\n}\n}"
            ),
            "Affinity must be nil for policy type PickFixed",
            "affinity {",
        ),
        (
            'toleration {\nkey = "k"\nvalue = "x"\noperator = "Exists"\n}',
            "Toleration value needs to be empty",
            'value = "x"',
        ),
        ('toleration {\nvalue = "x"\n}', "Toleration key cannot be empty", "toleration {"),
        (
            'toleration {\nkey = "k"\n}\ntoleration {\nkey = "k"\n}',
            "Toleration already exists",
            "toleration {",
        ),
        (
            build_required_affinity(build_properties(("Eq", "3"), ("Eq", "4"))),
            "Inconsistent requirements",
            "match_expression {",
        ),
        (
            build_required_affinity(build_properties(("Gt", "5"), ("Lt", "4"))),
            "Inconsistent requirements",
            "match_expression {",
        ),
        (
            build_required_affinity(build_properties(("Ge", "5 GB"))),
            'Value "5 GB" is not a valid resource.Quantity',
            'values   = ["5 GB"]',
        ),
        (
            build_required_affinity(build_properties(("Above", "5"))),
            "Unsupported operator Above",
            'operator = "Above"',
        ),
        (build_required_affinity(SORTER), "PropertySorter is not allowed", "property_sorter {"),
        (build_preferred_affinity(SORTER, 101), "Weight must be from -100 to 100", "weight = 101"),
        (
            build_preferred_affinity(SORTER, 1.5),
            "Weight must be a whole number, not 1.5",
            "weight = 1.5",
        ),
        (
            build_preferred_affinity(build_properties(("Ge", "5"))),
            "PropertySelector",
            "property_selector {",
        ),
        (
            'topology_spread_constraint {\ntopology_key = "region"\n}',
            "Topology spread constraints needs to be empty",
            "topology_spread_constraint {",
        ),
        (
            (
                'placement_type = "PickN"\nnumber_of_clusters = 1\ntopology_spread_constraint {\n'
                'topology_key = "region"\nmax_skew = 0\n}'
            ),
            "Max_skew must be 1 or more",
            "max_skew = 0",
        ),
        (
            'placement_type = "PickN"\nnumber_of_clusters = 99999999999999999999',
            '"number_of_clusters" must be between 0 and 2147483647',
            "number_of_clusters = 99999999999999999999",
        ),
        (
            build_required_affinity(
                'label_selector {\nmatch_expression {\nkey = "a"\noperator = "Equals"\n}\n}'
            ),
            '"Equals" is not a valid label selector operator',
            "label_selector {",
        ),
    ],
)
def test_webhook_rejections_are_reported_at_their_line(policy: str, said: str, line: str) -> None:
    found = list_rejections(build_placement(policy))
    assert len(found) == 1, found
    assert said in found[0][0]
    assert found[0][1] == line


def test_objects_selected_by_label_are_kept_in_state() -> None:
    by_label = 'version = "v1"\nkind = "Namespace"\nlabel_selector {\nmatch_labels = { t = "a" }\n}'
    text = build_placement("", f"resource_selector {{\n{by_label}\n}}")
    kept = attributes(build_state(text), "fleet_cluster_resource_placement.p")
    assert (
        validate_attributes(
            build_all_types().resource_types["fleet_cluster_resource_placement"].schema, kept
        )
        == []
    )


def test_kinds_of_the_other_scope_are_rejected_at_their_line() -> None:
    selector = 'resource_selector {{\n{}\nversion = "v1"\nkind = "{}"\nname = "x"\n}}'
    of_namespace = selector.format('group = "apps"', "Deployment")
    said = (
        "Deployment is not a cluster scoped resource: select its Namespace, or use "
        "fleet_resource_placement."
    )
    assert list_rejections(build_placement("", of_namespace)) == [(said, 'kind = "Deployment"')]
    custom = selector.format('group = "example.com"', "Deployment")
    assert list_rejections(build_placement("", custom)) == []
    other = build_placement("", 'namespace = "web"').replace(
        "cluster_resource_placement", "resource_placement"
    )
    assert list_rejections(other) == [
        ("Namespace is a cluster scoped resource.", 'kind    = "Namespace"')
    ]
    scope = 'name = "web"\nselection_scope = "NamespaceWithResourceSelectors"'
    scoped = build_placement("", of_namespace).replace('name    = "web"', scope)
    assert list_rejections(scoped) == []


def test_invalid_type_and_choice_have_their_lines() -> None:
    found = list_rejections(build_placement('placement_type = "PickMost"'))
    assert [line for _, line in found] == ['placement_type = "PickMost"']


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            'strategy {\nrolling_update {\nmax_surge = "lots"\n}\n}',
            "neither a whole number nor a percentage",
        ),
        ('strategy {\nrolling_update {\nmax_surge = "-1"\n}\n}', "greater than or equal to 0"),
        (
            'strategy {\nrolling_update {\nmax_unavailable = "101%"\n}\n}',
            "from 0% to 100%, got 101%",
        ),
        ('strategy {\ntype = "External"\nrolling_update {\n}\n}', "not valid for the External"),
        (
            (
                'resource_selector {\nversion = "v1"\nkind = "Namespace"\nname = "a"\n'
                "label_selector {\n}\n}"
            ),
            "not both",
        ),
        ('name = "Upper"', "lowercase RFC 1123 subdomain"),
    ],
)
def test_other_arguments_of_a_placement(more: str, said: str) -> None:
    found = list_errors(plan(build_placement("", more)))
    assert [said in e.detail for e in found] == [True], [e.detail for e in found]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('labels = { "bad key" = "x" }', "Name part must"),
        ('taint {\nkey = "a"\neffect = "NoExecute"\n}', "only NoSchedule exists"),
        ('resources {\ntotal = { cpu = "many" }\n}', "is not a valid quantity"),
        ('kubernetes_cluster_id = "s/a"\nproperties = { a = "1" }', "the nodes define the figures"),
        ('name = "UPPER"', "lowercase RFC 1123 subdomain"),
        ('subscription_id = "production"', "must be a GUID (see `az account show --query id`)"),
        (
            'labels = { "fleet.azure.com/subscription-id" = "production" }',
            'must be a GUID (see `az account show --query id`), not "production"',
        ),
    ],
)
def test_members(body: str, said: str) -> None:
    found = [
        e.detail
        for e in list_errors(plan(build_member("m", more=body).replace("labels = {}", "", 1)))
    ]
    assert any(said in detail for detail in found), found


def test_member_with_the_id_of_a_subscription() -> None:
    subscription = "8f2b1c3d-0000-4abc-9def-0123456789AB"
    for body in (
        f'subscription_id = "{subscription}"',
        f'labels = {{ "fleet.azure.com/subscription-id" = "{subscription}" }}',
    ):
        require_success(plan(build_member("m", more=body).replace("labels = {}", "", 1)))


MANIFEST = """apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata:
  name: web
spec:
  resourceSelectors:
    - {group: "", version: v1, kind: Namespace, name: web}
  policy:
    placementType: PickN
    numberOfClusters: 2
    tolerations:
      - {key: a, operator: Exists}
"""


def test_objects_of_a_member_without_a_cluster() -> None:
    nodes = 'data "kubernetes_nodes" "n" {\n  cluster_id = "edge"\n  files = ["nodes.json"]\n}\n'
    text = (
        build_member("edge")
        + nodes
        + (
            'resource "fleet_hub_manifest" "h" {\n  cluster_id = fleet_member_cluster.edge.id\n'
            '  yaml_body = "{apiVersion: v1, kind: Namespace, metadata: {name: web}}"\n}\n'
        )
    )
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"allocatable": amounts, "capacity": amounts},
    }
    result = build_state(text, files_there=Dump([node]))
    assert attributes(result, "fleet_hub_manifest.h")["cluster_id"] == "edge"


def test_manifest_is_equivalent_to_blocks() -> None:
    blocks = build_placement(
        (
            'placement_type = "PickN"\nnumber_of_clusters = 2\ntoleration {\nkey = "a"\noperator '
            '= "Exists"\n}'
        ),
        'name = "web"',
    )
    read = build_all_types().resource_types[KIND].build_fleet_object
    assert read is not None
    one, other = (
        read(attributes(build_state(build_hub() + build_member("m") + text), f"{KIND}.p"))
        for text in (blocks, build_manifest_placement(MANIFEST))
    )
    assert isinstance(one, FleetPlacement)
    assert isinstance(other, FleetPlacement)
    assert one == other


def test_manifest_name_excludes_other_arguments() -> None:
    state = build_state(build_hub() + build_manifest_placement(MANIFEST))
    assert attributes(state, f"{KIND}.p")["name"] == "web"
    named = build_manifest_placement(MANIFEST).replace("\n}", '\n  name = "other"\n}')
    assert ["Remove one of them" in e.detail for e in list_errors(plan(named))] == [True]
    twice = build_manifest_placement(MANIFEST).replace("\n}", "\n  policy {\n  }\n}")
    assert [e.summary for e in list_errors(plan(twice))] == ["Conflicting arguments"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "numberOfClusters: 2",
            "numberOfClusters: many",
            "manifest:10: spec.policy.numberOfClusters must be a whole number",
        ),
        (
            "placementType: PickN",
            "placementType: PickNone",
            'manifest:9: spec.policy.placementType is "PickNone"',
        ),
        ("kind: ClusterResourcePlacement", "kind: Deployment", "manifest:2: kind is"),
        ("{key: a, operator: Exists}", "{key: a, operator: Exists, value: b}", "manifest:12: "),
        ("  name: web\nspec", "  other: web\nspec", "metadata.name is missing"),
        ("spec:", "spec: [", "manifest:"),
    ],
)
def test_error_in_manifest_names_the_line(old: str, new: str, said: str) -> None:
    text = build_manifest_placement(MANIFEST.replace(old, new, 1)).replace(
        "\n}", '\n  name = "web"\n}'
    )
    found = [e.detail for e in list_errors(plan(build_hub() + text))]
    assert any(said in detail for detail in found), found


def test_unknown_field_is_rejected_with_a_suggestion() -> None:
    text = build_manifest_placement(MANIFEST.replace("numberOfClusters: 2", "numberOfCluster: 2"))
    found = [e.detail for e in list_errors(plan(build_hub() + text))]
    said = (
        'manifest:10: unknown field "spec.policy.numberOfCluster". Did you mean "numberOfClusters"?'
    )
    assert said in found


def test_several_errors_are_reported_together() -> None:
    text = build_placement(
        'cluster_names = ["A"]\nnumber_of_clusters = 2\ntoleration {\neffect = "NoExecute"\n}'
    )
    assert len(list_errors(plan(text))) == 4


def test_invalid_hub_objects_name_their_line() -> None:
    text = """
resource "fleet_hub_manifest" "h" {
  yaml_body = "apiVersion: v1\\nkind: ConfigMap\\nmetadata: {}\\n"
}
"""
    assert ["yaml_body:1: " in e.detail for e in list_errors(plan(text))] == [True]


def test_invalid_workloads_are_rejected_without_a_placement() -> None:
    job = """apiVersion: batch/v1
kind: Job
metadata: {name: once, namespace: db}
spec:
  parallelism: "2"
  template:
    spec: {containers: [{name: c, image: c}]}
"""
    text = f'resource "fleet_hub_manifest" "h" {{\n  yaml_body = <<-Y\n{job}Y\n}}\n'
    # An invalid value is reported once; a missing field may be filled in on the hub.
    told = [(each.severity.value, each.detail) for each in plan(text).diagnostics]
    assert [
        (severity, detail.partition("once: ")[2].split(" must ")[0]) for severity, detail in told
    ] == [("error", "spec.parallelism"), ("warning", "spec.template.spec.restartPolicy")]


def test_strategy_as_yaml() -> None:
    text = """apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata:
  name: slow
spec:
  stages:
    - name: canary
      labelSelector: {matchLabels: {ring: canary}}
      maxConcurrency: 50%
      afterStageTasks:
        - {type: TimedWait, waitTime: 1h}
        - {type: Approval}
"""
    block = build_manifest_placement(text).replace(KIND, "fleet_cluster_staged_update_strategy")
    state = build_state(block)
    read = (
        build_all_types().resource_types["fleet_cluster_staged_update_strategy"].build_fleet_object
    )
    assert read is not None
    found = read(attributes(state, "fleet_cluster_staged_update_strategy.p"))
    assert isinstance(found, FleetUpdateStrategy)
    stage = found.stages[0]
    assert (found.name, stage.name, str(stage.max_concurrency)) == ("slow", "canary", "50%")
    assert [(t.type, t.wait_seconds) for t in stage.after] == [
        ("TimedWait", 3600.0),
        ("Approval", None),
    ]


SELECTED = 'cluster_resource_selector {\nversion = "v1"\nkind = "Namespace"\n'
CONFIG = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}\\n"
SNAPSHOT = (
    "{apiVersion: placement.kubernetes-fleet.io/v1, kind: ClusterResourceSnapshot, metadata: "
    "{name: a}}"
)


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (
            "fleet_placement_disruption_budget",
            'max_unavailable = "1"\nmin_available = "1"',
            "max_unavailable and min_available cannot both be set",
        ),
        ("fleet_placement_eviction", 'placement_name = "p"', '"cluster_name" is required'),
        (
            "fleet_cluster_staged_update_strategy",
            'stage {\nname = "One"\n}',
            "lower-case letters and digits",
        ),
        (
            "fleet_cluster_staged_update_strategy",
            'stage {\nname = "one"\nafter_stage_task {\ntype = "TimedWait"\n}\n}',
            "waitTime is required",
        ),
        ("fleet_cluster_resource_override", "", "needs at least one cluster_resource_selector"),
        (
            "fleet_cluster_staged_update_run",
            'placement_name = "p"\nstaged_rollout_strategy_name = "s"\nstate = "Go"',
            "must be",
        ),
        (
            "fleet_cluster_staged_update_run",
            (
                'placement_name = "p"\nstaged_rollout_strategy_name = "s"\n'
                'resource_snapshot_index = "one"'
            ),
            '"one" is not the number of a resource snapshot',
        ),
        (
            "fleet_cluster_staged_update_run",
            (
                'placement_name = "p"\nstaged_rollout_strategy_name = "s"\n'
                'resource_snapshot_index = "007"'
            ),
            '"007" is not the number of a resource snapshot',
        ),
        ("fleet_cluster_staged_update_strategy", "", "needs at least one stage"),
        (
            "fleet_cluster_staged_update_strategy",
            (
                'stage {\nname = "one"\nafter_stage_task {\ntype = "TimedWait"\nwait_time = '
                '"soon"\n}\n}'
            ),
            "not a duration such as",
        ),
        (
            "fleet_cluster_resource_override",
            SELECTED + "label_selector {\n}\n}\n",
            "label selector is not supported",
        ),
        (
            "fleet_cluster_resource_override",
            f'{SELECTED}name = "a"\n}}\n' * 2,
            "already exists, and must be unique",
        ),
        (
            "fleet_cluster_resource_override",
            "policy {\noverride_rule {\n}\n}\n",
            "JSONPatchOverrides cannot be empty",
        ),
        ("fleet_resource_override", 'name = "o"', 'The argument "namespace" is required'),
        ("fleet_hub_manifest", "", 'The argument "yaml_body" is required'),
        (
            "fleet_hub_manifest",
            'yaml_body = ""\nyaml_body_wo_version = 1',
            "has no effect without yaml_body_wo",
        ),
        ("fleet_hub_manifest", 'yaml_body_wo = ""', "Set yaml_body_wo_version with it"),
        (
            "fleet_hub_manifest",
            f'yaml_body = "{CONFIG}---\\n{CONFIG}"',
            "is already defined at line 1",
        ),
        (
            "fleet_hub_manifest",
            f'yaml_body = "{SNAPSHOT}"',
            "is created by the hub itself. Remove it.",
        ),
    ],
)
def test_errors_of_placement_operations(kind: str, body: str, said: str) -> None:
    found = [e.detail for e in list_errors(plan(f'resource "{kind}" "x" {{\n{body}\n}}\n'))]
    assert any(said.lower() in detail.lower() for detail in found), found


OVERRIDE = """
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourceOverride
metadata: {name: o}
spec:
  clusterResourceSelectors:
    - {group: "", version: v1, kind: Namespace, name: web}
  policy:
    overrideRules:
RULES
"""
RULE = """
      - clusterSelector: {clusterSelectorTerms: [TERM]}
        jsonPatchOverrides:
          - {op: add, path: PATH, value: 1}
"""


@pytest.mark.parametrize(
    ("term", "path", "times", "said"),
    [
        ("{}", "/data", 1, "labelSelector is required"),
        (
            "{propertySelector: {matchExpressions: []}}",
            "/data",
            1,
            "only labelSelector is supported",
        ),
        (
            "{propertySorter: {name: a, sortOrder: Ascending}}",
            "/data",
            1,
            "only labelSelector is supported",
        ),
        ("{labelSelector: {}}", "/data", 21, "must have 1 to 20 items, not 21"),
        ("{labelSelector: {}}", "/metadata/name", 1, "except annotations and labels"),
        ("{labelSelector: {}}", "/metadata", 1, "cannot override field metadata"),
        ("{labelSelector: {}}", "/status/phase", 1, "cannot override status fields"),
        ("{labelSelector: {}}", "/data//a", 1, "path cannot contain empty string"),
        ("{labelSelector: {}}", "data", 1, "path must start with /"),
        ("{labelSelector: {}}", "/data", 20, ""),
    ],
)
def test_override_is_rejected_with_webhook_message(
    term: str, path: str, times: int, said: str
) -> None:
    rules = RULE.replace("TERM", term).replace("PATH", path) * times
    text = build_manifest_placement(OVERRIDE.replace("RULES", rules)).replace(
        KIND, "fleet_cluster_resource_override"
    )
    found = [e.detail for e in list_errors(plan(text))]
    assert [said.lower() in detail.lower() for detail in found] == ([True] if said else []), found


def test_validate_accepts_unknown_values(tmp_path: Path) -> None:
    text = (
        """
variable "n" {
  type = number
}
variable "names" {
  type = list(string)
}
"""
        + build_placement('placement_type = "PickN"\nnumber_of_clusters = var.n')
        + build_placement('placement_type = "PickFixed"\ncluster_names = var.names', name="q")
    )
    (tmp_path / "main.nf.hcl").write_text(text + build_member("a"))
    found = validate_directory(CommandContext(directory=str(tmp_path)))
    assert [(d.summary, d.detail) for d in found.diagnostics if d.severity is Severity.ERROR] == []
    require_success(plan(text + build_member("a"), variables=("n=1", 'names=["a"]')))


def test_placement_needs_a_resource_selector() -> None:
    text = f'{build_hub()}\nresource "{KIND}" "p" {{\n}}\n'
    ((detail, _),) = list_rejections(text)
    assert detail == "ResourceSelectors should have at least 1 item: add a resource_selector block."


def test_recorded_bindings_may_have_every_state() -> None:
    choices = PLACEMENT_VALUES["bindings"].member_choices
    assert choices["state"] == tuple(BindingState)
    assert {*choices["previous_state"]} == {None, "", *BindingState}
