"""State and outputs as text, for `show`, `state show` and `output`."""

from collections.abc import Mapping

from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import enclose
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.rendering.notation.colours import PLAIN, Painter
from nexusform.rendering.notation.hcl_text import PathMarks, render_hcl_value
from nexusform.rendering.report.change_stanzas import format_block_header
from nexusform.rendering.report.difference_tree import Comparison
from nexusform.rendering.report.object_rows import create_schema_lookup
from nexusform.rendering.text.change_stanza_text import render_body_lines
from nexusform.resources.address import Address, compute_address_order
from nexusform.schemas.block_schema import BlockSchema
from nexusform.state.objects import ObjectState, OutputState, State

_NO_REGISTRIES = PluginRegistries()


def render_state(
    state: State,
    registries: PluginRegistries = _NO_REGISTRIES,
    *,
    colour: bool = False,
    show_sensitive: bool = False,
) -> str:
    """Render all objects by address, then the outputs, or a sentence for an empty state."""
    find_schema = create_schema_lookup(registries)
    parts: list[str] = []
    for address in sorted(state.instances, key=compute_address_order):
        schema = find_schema(address)
        for deposed, instance in state.instances[address].all_objects:
            parts.append(
                render_object(
                    address,
                    instance,
                    schema,
                    deposed=deposed,
                    colour=colour,
                    show_sensitive=show_sensitive,
                )
            )
    if state.outputs:
        parts.append(f"Outputs:\n\n{render_outputs(state.outputs, show_sensitive=show_sensitive)}")
    if parts:
        return "\n".join(parts)
    return (
        "The state file is empty. No resources are represented.\n"
        if state.lineage
        else "No state.\n"
    )


def render_object(
    address: Address,
    instance: ObjectState,
    schema: BlockSchema | None = None,
    *,
    deposed: str = "",
    colour: bool = False,
    show_sensitive: bool = False,
) -> str:
    """Render one object as a block with every attribute and a final newline."""
    hidden_paths = () if show_sensitive else instance.sensitive
    marks = PathMarks.create(hidden_paths, hidden_paths)
    # An object has no changes in comparison with itself.
    sides = instance.attributes, instance.attributes
    body = Comparison(show_unchanged=True).compare_objects(*sides, schema, marks)
    notes = enclose(" (deposed object ", deposed, ")")
    notes += " (tainted)" if instance.tainted else ""
    lines = [
        Painter(colour)(f"# {escape_name(str(address))}:{notes}", "bold"),
        f"{format_block_header(address)} {{",
    ]
    # A separate block has no symbol column, so remove four columns.
    lines += [line.removeprefix("    ") for line in render_body_lines(body, PLAIN)]
    return "\n".join([*lines, "}\n"])


def render_outputs(outputs: Mapping[str, OutputState], *, show_sensitive: bool = False) -> str:
    """Render `name = value` by name; sensitive values as `<sensitive>`."""
    lines = []
    for name in sorted(outputs):
        output = outputs[name]
        is_hidden = output.sensitive and not show_sensitive
        text = "<sensitive>" if is_hidden else render_hcl_value(output.value, output.type)
        lines.append(f"{name} = {text}\n")
    return "".join(lines)
