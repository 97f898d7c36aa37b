"""State for people: what `show`, `state show` and `output` print."""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.address import Address, address_order
from nexusform.ports import Registries
from nexusform.rendering.notation.colours import PLAIN, Painter, harmless
from nexusform.rendering.notation.hcl_text import Marks, hcl_value
from nexusform.rendering.report.body import body_difference
from nexusform.rendering.report.difference_tree import Walk
from nexusform.rendering.report.report import block_header, schema_lookup
from nexusform.rendering.text.stanza_text import body_lines
from nexusform.schema import BlockSchema
from nexusform.state.objects import InstanceState, ObjectState, OutputState, State

_NO_REGISTRIES = Registries()


def render_state(
    state: State,
    registries: Registries = _NO_REGISTRIES,
    *,
    colour: bool = False,
    show_sensitive: bool = False,
) -> str:
    """All objects by address, then the outputs; a sentence when there is nothing."""
    paint = Painter(colour)
    schema_of = schema_lookup(registries)
    parts: list[str] = []
    for address in sorted(state.instances, key=address_order):
        schema = schema_of(address)
        for deposed, instance in _objects(state.instances[address]):
            text = _object(address, instance, schema, deposed, paint=paint, show_sensitive=show_sensitive)
            parts.append(text)
    if state.outputs:
        parts.append(f"Outputs:\n\n{render_outputs(state.outputs, show_sensitive=show_sensitive).rstrip()}")
    if not parts:
        return "The state file is empty. No resources are represented.\n"
    return "\n\n".join(parts) + "\n"


def _objects(instance: InstanceState) -> list[tuple[str, ObjectState]]:
    """The current object under "", where there is one, then deposed ones under their keys."""
    current = [("", instance.current)] if instance.current is not None else []
    return [*current, *sorted(instance.deposed.items())]


def render_object(
    address: Address,
    instance: ObjectState,
    schema: BlockSchema | None = None,
    *,
    deposed: str = "",
    colour: bool = False,
    show_sensitive: bool = False,
) -> str:
    """One object as a block with every attribute, ending in a newline."""
    paint = Painter(colour)
    text = _object(address, instance, schema, deposed, paint=paint, show_sensitive=show_sensitive)
    return f"{text}\n"


def _object(
    address: Address,
    instance: ObjectState,
    schema: BlockSchema | None,
    deposed: str,
    *,
    paint: Painter,
    show_sensitive: bool,
) -> str:
    """One object as a block, without a newline at the end."""
    hidden = () if show_sensitive else instance.sensitive
    marks = Marks.of(hidden, hidden)
    body = body_difference(
        instance.attributes, instance.attributes, schema, marks=marks, walk=Walk(show_unchanged=True)
    )
    notes = f" (deposed object {deposed})" if deposed else ""
    notes += " (tainted)" if instance.tainted else ""
    lines = [paint(f"# {harmless(str(address))}:{notes}", "bold"), f"{block_header(address)} {{"]
    # A block of its own has no column for symbols, so everything stands four columns further left.
    lines += [line.removeprefix("    ") for line in body_lines(body, PLAIN)]
    return "\n".join([*lines, "}"])


def render_outputs(outputs: Mapping[str, OutputState], *, show_sensitive: bool = False) -> str:
    """`name = value` by name; sensitive ones as `<sensitive>`."""
    lines = []
    for name in sorted(outputs):
        output = outputs[name]
        hidden = output.sensitive and not show_sensitive
        text = "<sensitive>" if hidden else hcl_value(output.value, output.type)
        lines.append(f"{name} = {text}\n")
    return "".join(lines)
