"""Tables of the closed field lists of a kind of document, and the walk that finds unread facts."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.documents.field_lists import FieldList
from nexusform.documents.yaml_documents import DocumentFindings, Node
from nexusform.doubts.doubt import Doubt

_LIST: Final = "["
_MAPPING: Final = "{"
# Empty values, which request nothing; a false value or a zero may request something.
_EMPTY: Final[tuple[Any, ...]] = ("", [], {})


def _keep_node(node: Node) -> Node:
    """Return a node without references."""
    return node


class FieldTables(Struct, frozen=True):
    """Closed lists by name, and the lists of the parts of an object.

    `parts` maps LIST.FIELD to the name of a list, with `[` before it for a list of objects and
    `{` for a mapping to them. `harmless_values` maps LIST.FIELD to values of an unread field
    that change nothing.
    """

    lists: Mapping[str, FieldList]
    parts: Mapping[str, str] = field(default_factory=dict)
    harmless_values: Mapping[str, tuple[str | bool, ...]] = field(default_factory=dict)

    def add_unread_fields(
        self,
        notes: DocumentFindings,
        node: Node,
        list_name: str,
        subject: Doubt,
        prefix: str = "",
        resolve: Callable[[Node], Node] = _keep_node,
    ) -> None:
        """Add the unread fields of an object and of its parts to the notes.

        `subject` is a doubt with kind, name and pool. `prefix` is the path of the object in its
        subject, `resolve` replaces a reference.
        """
        present: dict[str, Node] = {}
        for name, part in node.list_fields():
            harmless_values = self.harmless_values.get(f"{list_name}.{name}", ())
            value = resolve(part)
            if not value.is_absent and value.data not in (*_EMPTY, *harmless_values):
                present[name] = part
        for name, influence in self.lists[list_name].list_unread(present):
            notes.add_unread_fact(
                present[name],
                (subject.kind, subject.name),
                f"{prefix}{name}",
                influence,
                pool=subject.pool,
            )
        for name, part in present.items():
            part_list = self.parts.get(f"{list_name}.{name}", "")
            for item in _list_objects(part, part_list):
                self.add_unread_fields(
                    notes, item, part_list.lstrip("[{"), subject, f"{name}.", resolve
                )


def _list_objects(node: Node, part_list: str) -> Iterator[Node]:
    """List the objects in a field: the items of a list, the values of a mapping, or itself."""
    if part_list.startswith(_LIST):
        yield from node.list_items()
    elif part_list.startswith(_MAPPING):
        yield from (part for _, part in node.list_fields())
    elif part_list:
        yield node
