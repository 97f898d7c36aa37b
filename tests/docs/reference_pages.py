"""The reference pages, written from what the product itself knows: schemas and commands."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from nexusform.advice.registry import RULES
from nexusform.backends.backend_kind import BACKENDS
from nexusform.cli.arguments import Flag
from nexusform.cli.commands import LazyGroup
from nexusform.cli.help_sections import get_command_examples
from nexusform.cli.main import ROOT
from nexusform.diagnostics.diagnostic import SourceFile
from nexusform.domains.editor.schema_lookup import escape_description
from nexusform.domains.fleet.planning.binding_rows import TRIGGER_REASONS as BINDING_REASONS
from nexusform.domains.fleet.scheduling.watcher import Trigger
from nexusform.domains.pods.planning.pod_rows import REASONS as POD_REASONS
from nexusform.interfaces.plugins import ResourceType
from nexusform.language.formatter import format_text
from nexusform.planning.conclusion.vm_placement_rows import REASONS as VM_REASONS
from nexusform.providers.registry import PROVIDERS
from nexusform.resource_types.registry import DATA_SOURCES, RESOURCE_TYPES
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting, OnChange
from nexusform.schemas.value_types import describe_type

HEAD = "<!-- Written by tests/docs; do not edit. NEXUSFORM_REWRITE_GOLDEN=1 python -m pytest tests/docs -->"

# One file per type; tests/examples plans and applies them.
EVERY_TYPE = Path(__file__).parents[2] / "examples" / "every-type"
# Types with an example in another directory.
ELSEWHERE = {"fleet_hub": EVERY_TYPE.parent / "fleet-hub"}

TYPES_WORDS = """\
Each page has an example, then all arguments. `computed` values are set by nexusform. A `predicted` value may
differ from the observed one without an error. The examples form one configuration,
[examples/every-type](../../examples/every-type/README.md)."""

COMMANDS_WORDS = """\
`nexusform COMMAND -help` prints the same in a terminal. Write a flag as `-name=value`; `-chdir=DIR` comes
before the command. `-confine`, `-allow-remote`, `-limit` and `-backend-config` work with nearly every
command. [Shared flags](#shared-flags) are explained once, at the end."""
# A nested block with this many rows is described once.
FOLDED_FROM = 3
LARGE = 2**31 - 1
# A flag of this many commands is explained in the table of shared flags.
SHARED_FROM = 3
# These are flags of nearly every command, and are not repeated.
EVERYWHERE = ("confine", "allow-remote", "limit", "backend-config")

PROVIDERS_WORDS = """\
A provider applies the changes of a plan. The default provider `simulated` only records them in the state. For
drills it simulates a site in a file, with faults:

```hcl
provider "simulated" {
  reality = "site.json" # the simulated site; edit it to create drift, or import from it
  fault {
    address   = "nexus_rack.r[*]"
    operation = "create"
    error     = "the rack is not wired" # without it the call is only delayed
    delay     = "2s"
  }
}
```"""

TRIGGERS_WORDS = """\
```sh
nexusform plan -report=json:plan.json
jq -r '.placement_changes[] | "\\(.object) \\(.trigger)"' plan.json
```

A trigger is the reason of a plan to place, move or remove a VM, binding or pod. Each change has one."""

OBSERVATIONS_WORDS = """\
## Observations of bindings

An observation moves nothing. The row has the action `keep`."""
# Triggers of bindings without a change.
OBSERVATIONS = {
    Trigger.TAINT_ADDED: "a bound cluster has a new taint without a toleration",
    Trigger.CLUSTER_BECAME_INELIGIBLE: "a bound cluster is no longer eligible",
    Trigger.LABELS_NO_LONGER_MATCH: "a bound cluster no longer matches the policy",
    Trigger.MOVED_ON_THE_HUB: "the hub has a binding that the state lacks",
}

LINT_WORDS = """\
```hcl
lint { ignore = ["zones-pinned"] } # in the nexusform block: disables a rule everywhere
```

A lint rule finds risks in a valid configuration. Plans report a rule only if it matters now.
`nexusform advise` reports all rules, with their cost. `# nexusform:ignore ID` on the line before a block
disables a rule there."""

SKUS_WORDS = """\
Host vCPUs are guest vCPUs plus emulator threads. A SKU with several NUMA cells uses an equal share of each.
A SKU runs only on the listed machines."""

_SITE = """\
resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  for_each      = toset(["1", "2", "3", "4"])
  site_id       = nexus_site.lab.id
  name          = "rack${each.key}"
  machine_count = MACHINES
}
"""
_CLUSTER = """
resource "nexus_kubernetes_cluster" "NAME" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "workers" {
    count       = COUNT
    vm_sku_name = "SKU"MORE
  }
}
"""


def _example(machines: int, *clusters: tuple[str, int, str, str]) -> str:
    blocks = [
        _CLUSTER.replace("NAME", name).replace("COUNT", str(count)).replace("SKU", sku).replace("MORE", more)
        for name, count, sku, more in clusters
    ]
    text = _SITE.replace("MACHINES", str(machines)) + "".join(blocks)
    return format_text(SourceFile("example.nf.hcl", text))[0]


_PINNED = '\n    availability_zones = ["rack1"]'
LINT_EXAMPLES = {
    "zones-pinned": _example(4, ("a", 6, "NC_P46_224_v1", _PINNED)),
    "zones-too-small": _example(2, ("a", 4, "NC_P22_112_v1", _PINNED)),
    "small-before-large": _example(4, ("small", 4, "NC_P10_56_v1", ""), ("large", 12, "NC_P46_224_v1", "")),
    "sku-mismatch": _example(4, ("a", 4, "NC_P46_224_v1", "")).replace(
        "machine_count = 4", 'machine_count = 4\n  machine_sku   = "bom-2.0"'
    ),
    "shared-machine": _example(1, ("a", 7, "NC_P46_224_v1", "")),
    "no-surge-capacity": _example(1, ("a", 7, "NC_P46_224_v1", "")),
}
ENVIRONMENT = {
    "NF_VAR_NAME": "value of the variable NAME; `-var-file` and `-var` override it",
    "NF_CLI_ARGS": "arguments added to every command",
    "NF_CLI_ARGS_COMMAND": "arguments added to one command: `NF_CLI_ARGS_plan`, `NF_CLI_ARGS_state_list`",
    "NF_IN_AUTOMATION": (
        "for CI: confines the run, omits hints, disables the cache and warns of a state on local disk"
    ),
    "NF_INPUT": "`0` or `false`: ask no questions",
    "NF_WORKSPACE": "workspace, instead of the selected one",
    "NF_FLEET_KUBECONFIG": "kubeconfig of the fleet hub; overrides configuration",
    "NF_FLEET_CONTEXT": "context in the kubeconfig; overrides configuration",
    "NF_DATA_DIR": "directory for working data; default `.nexusform`",
    "NF_CACHE_DIR": "directory of the parser cache; default `nexusform` in the user's cache directory",
    "NF_LOG": "log level on stderr: `trace`, `debug`, `info`, `warn`, `error`; `json`: one object per line",
    "NF_LOG_PATH": "log file, instead of stderr; lines are appended",
    "NF_AZURE_REQUESTS": (
        "`N:DIRECTORY`: at most N requests per minute and subscription, for all processes with DIRECTORY"
    ),
    "NF_CLUSTER_CA": "CA certificate of a Dask cluster ([many sites](../many-sites.md))",
    "NF_CLUSTER_CERT": "client certificate for the Dask cluster",
    "NF_CLUSTER_KEY": "private key of that certificate",
    "NF_CONFINE": "as `-confine`: restricts configuration ([security](../security.md)); `false` disables it",
    "NF_ALLOW_REMOTE": "as `-allow-remote`: allowed addresses in a confined run, separated by spaces",
    "NF_LIMIT_NAME": "as `-limit=NAME=N`: a resource limit, such as `NF_LIMIT_VMS=N`",
    "NF_ENCRYPTION": "the `encryption` block, or a part of it ([state and teams](../state-and-teams.md))",
    "NF_ENCRYPTION_COMMAND": "program of the key provider `external`",
    "NF_HTTP_USERNAME": "user name of the backend `http`",
    "NF_HTTP_PASSWORD": "password of the backend `http`",
    "AZURE_SUBSCRIPTION_ID": ("default subscription of provider `azure`; the only one allowed in a confined run"),
    "NF_AZURE_ENDPOINT": "URL of Azure Resource Manager, instead of the public cloud",
    "NF_AZURE_POLL_SECONDS": "poll interval of Azure operations in seconds, if Azure sets none; default 10",
    "NF_KUBECONFIG_DIR": "directory with `CLUSTER.yaml` kubeconfigs, for provider `azure` to delete nodes",
    "NF_NET_DEADLINE": (
        "timeout in seconds of a remote state operation, plus 1 s per MiB, or of an Azure request with "
        "retries; default 180"
    ),
    "NF_LEASE_SECONDS": "lease time of a remote state lock without renewal, 15 to 60",
    "NO_COLOR": "disables colours",
    "CLICOLOR_FORCE": "enables colours without a terminal",
    "SOURCE_DATE_EPOCH": "current time of a plan, for reproducible output",
}

_MEANING = {
    OnChange.UPDATE: "",
    OnChange.REPLACE: "a change replaces the resource",
    OnChange.REPLACE_POOL: "a change re-places the pool's VMs",
}


def types_page() -> str:
    """docs/reference/types.md: all types, each with its page."""
    lines = [HEAD, "", "# Resource types and data sources", "", *TYPES_WORDS.splitlines(), ""]
    for title, table in (("Resource types", RESOURCE_TYPES), ("Data sources", DATA_SOURCES)):
        lines += [f"## {title}", "", "| type | what it is |", "|---|---|"]
        for name, resource_type in table.items():
            words = escape_description(resource_type.schema.description)
            lines.append(f"| [{name}]({_file_of(resource_type)}) | {words} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def type_pages() -> dict[str, str]:
    """Build the page of every type, by its file below docs/reference."""
    kinds = [*RESOURCE_TYPES.values(), *DATA_SOURCES.values()]
    known = KnownBlocks()
    return {_file_of(kind): "\n".join(_type(kind, known)).rstrip() + "\n" for kind in kinds}


class KnownBlocks:
    """Blocks by their rows, with the page and the path of their first description."""

    def __init__(self) -> None:
        self.page = ""
        self._known: dict[tuple[str, ...], tuple[str, str]] = {}

    def find_or_add(self, rows: Sequence[str], path: str) -> str:
        """Return where an equal block is described, "" for a new or short one."""
        if len(rows) < FOLDED_FROM:
            return ""
        page, known = self._known.setdefault(tuple(rows), (self.page, path))
        if page == self.page:
            return "" if known == path else f"Arguments as in `{known}`."
        return f"Arguments as in `{known}` of [{page}]({page}.md)."


def _file_of(resource_type: ResourceType) -> str:
    front = "data_" if resource_type.mode == "data" else ""
    return f"types/{front}{resource_type.name}.md"


def backends_page() -> str:
    """docs/reference/backends.md."""
    lines = [
        HEAD,
        "",
        "# Backends",
        "",
        "```hcl",
        'backend "local" {',
        '  path = "state/lab.nfstate"',
        "}",
        "```",
        "",
        "Write it in the `nexusform` block. How to choose one: [state and teams](../state-and-teams.md).",
        "",
    ]
    for name, kind in BACKENDS.items():
        lines += [f'## backend "{name}"', "", kind.schema.description, ""]
        lines += _body(kind.schema) if kind.schema.attributes else []
    return "\n".join(lines).rstrip() + "\n"


def providers_page() -> str:
    """docs/reference/providers.md."""
    lines = [HEAD, "", "# Providers", "", *PROVIDERS_WORDS.splitlines(), ""]
    for name, kind in PROVIDERS.items():
        lines += [f'## provider "{name}"', "", kind.settings.description, "", *_body(kind.settings)]
    return "\n".join(lines).rstrip() + "\n"


def _type(resource_type: ResourceType, known: KnownBlocks) -> Iterator[str]:
    front = "data " if resource_type.mode == "data" else ""
    known.page = resource_type.name
    yield from (
        HEAD,
        "",
        f"# {front}{resource_type.name}",
        "",
        escape_description(resource_type.schema.description),
        "",
    )
    directory = ELSEWHERE.get(resource_type.name, EVERY_TYPE)
    example = directory / f"{resource_type.name.replace('_', '-')}.nf.hcl"
    yield from ("```hcl", *example.read_text(encoding="utf-8").splitlines(), "```", "")
    yield from _body(resource_type.schema, known)


def _body(schema: BlockSchema, known: KnownBlocks | None = None) -> Iterator[str]:
    yield "| argument | type | given | meaning |"
    yield "|---|---|---|---|"
    yield from _rows(schema, "", known or KnownBlocks())
    yield ""


def _rows(schema: BlockSchema, prefix: str, known: KnownBlocks) -> Iterator[str]:
    for name, attribute in schema.attributes.items():
        kind = describe_type(attribute.type, constraint=True)
        yield f"| `{prefix}{name}` | {kind} | {_given(attribute)} | {_attribute(attribute)} |"
    for name, block in schema.blocks.items():
        given = "required" if block.min_items else "optional"
        elsewhere = known.find_or_add(list(_rows(block.schema, "", KnownBlocks())), f"{prefix}{name}")
        meaning = f"{_block(block)} {elsewhere}".strip()
        yield f"| `{prefix}{name}{_label(block)}` | block | {given} | {meaning} |"
        if not elsewhere:
            yield from _rows(block.schema, f"{prefix}{name}.", known)


def _label(block: NestedBlock) -> str:
    return f' "{block.label.upper()}"' if block.nesting is Nesting.MAP else ""


def _given(attribute: AttributeSchema) -> str:
    """Whether it must, may or cannot be written."""
    if attribute.required:
        return "required"
    if attribute.optional and attribute.default not in (None, ""):
        return f"default `{_literal(attribute.default)}`"
    computed = "predicted" if attribute.predicted else "computed" if attribute.computed else ""
    return ", ".join(filter(None, ("optional" if attribute.optional else "", computed)))


def _attribute(attribute: AttributeSchema) -> str:
    notes = []
    if attribute.choices:
        notes.append("one of " + ", ".join(f"`{choice}`" for choice in attribute.choices))
    if bounds := _bounds(attribute):
        notes.append(bounds)
    if _MEANING[attribute.on_change] and attribute.is_configurable:
        notes.append(_MEANING[attribute.on_change])
    return _with_notes(attribute.description, notes)


def _with_notes(description: str, notes: list[str]) -> str:
    """A description, and after it a sentence of notes."""
    told = "; ".join(notes)
    sentence = f"{told[0].upper()}{told[1:]}." if told else ""
    return f"{escape_description(description)} {sentence}".replace("|", "\\|").strip()


def _bounds(attribute: AttributeSchema) -> str:
    """Return the bounds in words; "" without, and for the largest whole numbers of a machine."""
    minimum, maximum = attribute.minimum, attribute.maximum
    if maximum is None or maximum >= LARGE:
        return "" if minimum is None else f"at least {minimum}"
    return f"at most {maximum}" if minimum is None else f"{minimum} to {maximum}"


def _literal(value: object) -> str:
    return {True: "true", False: "false"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def _block(block: NestedBlock) -> str:
    notes = []
    if block.nesting is not Nesting.SINGLE:
        notes.append("may be repeated")
    if _MEANING[block.on_change]:
        notes.append(_MEANING[block.on_change])
    return _with_notes(block.description, notes)


def commands_page() -> str:
    """Build docs/reference/commands.md."""
    commands = list(_commands("nexusform", ROOT))
    uses = Counter(record for _, command in commands for record in _flags(command).values())
    # Of two flags of one name the more frequent one is shared.
    by_name = {record[0]: record for record, count in reversed(uses.most_common()) if count >= SHARED_FROM}
    shared = set(by_name.values())
    lines = [HEAD, "", "# Commands", "", *COMMANDS_WORDS.splitlines(), ""]
    for path, command in commands:
        lines += _command(path, command, shared)
    lines += ["## Shared flags", "", "| flag | effect |", "|---|---|"]
    lines += sorted(_flag_row(*record) for record in shared)
    return "\n".join(lines).rstrip() + "\n"


def _commands(path: str, group: LazyGroup) -> Iterator[tuple[str, click.Command]]:
    """Return every command with its words, groups before their commands."""
    with click.Context(group, info_name=path) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield f"{path} {name}", command
            if isinstance(command, LazyGroup):
                yield from _commands(f"{path} {name}", command)


def _command(path: str, command: click.Command, shared: set[tuple[str, str]]) -> Iterator[str]:
    """Return the section of one command."""
    with click.Context(command, info_name=path) as context:
        usage = " ".join([path, *command.collect_usage_pieces(context)])
    yield from (f"## {path}", "", f"`{usage}`", "", *_escaped(inspect.cleandoc(command.help or "")).splitlines(), "")
    examples = get_command_examples(path.removeprefix("nexusform "))
    if examples:
        yield from ("```sh", *(f"{typed}  # {effect}" for typed, effect in examples), "```", "")
    flags = _flags(command)
    own = [_flag_row(*record) for record in flags.values() if record not in shared]
    if own:
        yield from ("| flag | effect |", "|---|---|", *own, "")
    common = [f"`-{name}`" for name, record in flags.items() if record in shared and name not in EVERYWHERE]
    if common:
        yield from (f"Shared flags: {', '.join(common)}.", "")


def _escaped(text: str) -> str:
    """Escape asterisks outside of code."""
    return "`".join(part if number % 2 else part.replace("*", "\\*") for number, part in enumerate(text.split("`")))


def _flags(command: click.Command) -> dict[str, tuple[str, str]]:
    """Return the help records of a command's flags by name."""
    with click.Context(command) as context:
        records = {
            option.opts[0].lstrip("-"): option.get_help_record(context)
            for option in command.get_params(context)
            if isinstance(option, Flag)
        }
    return {name: record for name, record in records.items() if record}


def help_texts() -> Iterator[tuple[str, str, str]]:
    """Return the help of every flag, and of every command in the list of its group: command, name, text."""
    for path, command in _commands("nexusform", ROOT):
        for option in command.params:
            if isinstance(option, Flag) and not option.hidden:
                yield path, option.opts[0], option.help or ""
        if isinstance(command, LazyGroup):
            yield from ((path, name, entry.summary) for name, entry in command.table.items())
    yield from (("nexusform", name, entry.summary) for name, entry in ROOT.table.items())


def _flag_row(flag: str, effect: str) -> str:
    written = flag.replace("|", "\\|")
    return f"| `{written}` | {effect} |"


def triggers_page() -> str:
    """docs/reference/triggers.md."""
    lines = [HEAD, "", "# Triggers", "", *TRIGGERS_WORDS.splitlines(), ""]
    tables = (("VMs", VM_REASONS), ("Fleet bindings", BINDING_REASONS), ("Pods", POD_REASONS))
    for title, reasons in tables:
        lines += [f"## {title}", "", "| trigger | cause |", "|---|---|"]
        lines += [f"| `{trigger}` | {reason} |" for trigger, reason in reasons.items()]
        lines.append("")
    lines += [*OBSERVATIONS_WORDS.splitlines(), "", "| observation | meaning |", "|---|---|"]
    lines += [f"| `{trigger}` | {seen} |" for trigger, seen in OBSERVATIONS.items()]
    return "\n".join(lines).rstrip() + "\n"


def lint_page() -> str:
    """docs/reference/lint.md. The examples are run by the tests."""
    lines = [HEAD, "", "# Lint rules", "", *LINT_WORDS.splitlines(), ""]
    for rule in RULES:
        where = "`validate`, `plan` and `advise`" if rule.literal else "`plan` and `advise`"
        lines += [f"## {rule.id}", "", rule.help, "", f"Reported by {where}. Example:", ""]
        lines += ["```hcl", *lint_example(rule.id).splitlines(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def lint_example(rule_id: str) -> str:
    """Return a configuration that a rule reports."""
    return LINT_EXAMPLES[rule_id].strip("\n")


def skus_page() -> str:
    """docs/reference/skus.md."""
    catalogue = CATALOGUES[NEWEST]
    lines = [HEAD, "", "# VM SKUs and machines", "", f"Catalogue {NEWEST}, of {catalogue.date}: {catalogue.source}", ""]
    lines += [
        *SKUS_WORDS.splitlines(),
        "",
        "| VM SKU | guest vCPUs | host vCPUs | GiB | cells | extra-large | machines |",
    ]
    lines.append("|---|--:|--:|--:|--:|---|---|")
    for sku in catalogue.vm_skus.values():
        large = "yes" if sku.extra_large else ""
        machines = ", ".join(sku.machine_skus) or "any"
        figures = f"{sku.vcpus} | {sku.host_vcpus} | {sku.memory_gib} | {sku.numa_cells}"
        lines.append(f"| `{sku.name}` | {figures} | {large} | {machines} |")
    lines += ["", "| machine | cells | vCPUs per cell | GiB per cell |", "|---|--:|--:|--:|"]
    for name, machine in catalogue.machine_skus.items():
        figures = f"{machine.cells} | {machine.cpus_per_cell} | {machine.memory_gib_per_cell}"
        lines.append(f"| `{name}` | {figures} |")
    return "\n".join(lines).rstrip() + "\n"


def environment_page() -> str:
    """docs/reference/environment.md."""
    lines = [HEAD, "", "# Environment variables", ""]
    lines += ["```sh", "NF_LOG=debug NF_VAR_region=eu nexusform plan", "```", ""]
    lines += ["| variable | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in ENVIRONMENT.items()]
    return "\n".join(lines) + "\n"
