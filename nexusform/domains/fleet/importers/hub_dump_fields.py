"""Closed lists of the fields of the fleet's objects in a hub, and the facts that are not read.

Names and kinds of fields are those of KubeFleet's definitions (assets/fleet_fields.txt, written by
packaging/fleet_fields.py). The readers follow that version of KubeFleet, so its fields are known;
a field that its definitions lack is unread.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources

from nexusform.documents.field_validation import FieldKind
from nexusform.documents.object_schemas import (
    FieldTable,
    ObjectSchema,
    UnreadPart,
    build_unread_fact,
    parse_field_table,
)
from nexusform.documents.unread_facts import FieldList, UnreadFact
from nexusform.documents.yaml_documents import YamlDocument, describe_kind
from nexusform.domains.pods.importers.dump_fields import list_wrong_server_values
from nexusform.domains.pods.importers.manifest_parser import Manifest


@cache
def read_fleet_schema() -> FieldTable:
    """Read assets/fleet_fields.txt."""
    path = resources.files("nexusform.domains.fleet.importers").joinpath(
        "assets", "fleet_fields.txt"
    )
    return parse_field_table(path.read_text(encoding="utf-8"))


@cache
def _get_list(type_name: str) -> FieldList:
    """Return the closed list of a type: all fields of its schema."""
    return FieldList(frozenset(read_fleet_schema().types[type_name]))


def list_unread_facts(manifests: Iterable[Manifest]) -> Iterator[UnreadFact]:
    """List the facts of the fleet's objects that are not read; other objects have none."""
    table = read_fleet_schema()
    schema = ObjectSchema(lambda name: table.types.get(name, {}), _get_list)
    for manifest in manifests:
        type_name = table.kinds.get(f"{manifest.group}/{manifest.version} {manifest.kind}")
        document = YamlDocument(manifest.body, manifest.position)
        version = manifest.body.get("apiVersion")
        if not isinstance(version, str):
            reason = f"it is {describe_kind(version)}, not {FieldKind.TEXT.value}"
            part = UnreadPart(("apiVersion",), "apiVersion", reason=reason)
            line = document.find_position("apiVersion").line
            yield build_unread_fact(manifest.body, part, manifest.file, line)
        if type_name is None:
            continue
        for part in (
            *schema.list_unread_parts(manifest.body, type_name),
            *list_wrong_server_values(manifest.body, "metadata", "meta_v1.ObjectMeta"),
        ):
            line = document.find_position(*part.path).line
            yield build_unread_fact(manifest.body, part, manifest.file, line)
