"""Fleet types configured as blocks or as a manifest: arguments in either form."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.documents.yaml_documents import TextPosition, YamlDocument
from nexusform.domains.fleet.importers.fleet_documents import FleetDocument, read_fleet_object
from nexusform.domains.fleet.importers.fleet_records import FleetObject
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.scheduling.fleet_api_validation import INVALID, build_error, check_name
from nexusform.domains.fleet.types.block_bodies import BLOCK_API_VERSION, build_block_body
from nexusform.domains.fleet.types.fleet_arguments import (
    build_line_problems,
    build_problems,
    parse_manifest,
    remove_unknown_part_problems,
)
from nexusform.domains.fleet.types.fleet_schemas import (
    FORCE_CONFLICTS,
    LENIENT,
    MANIFEST,
    make_name,
    make_namespace,
)
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.json_data.plain_data import replace_unknown
from nexusform.kubernetes.matching import validate_dns_label
from nexusform.placements.consequences import NO_CONSEQUENCES, ConsequenceTable
from nexusform.resource_types.shared_arguments import (
    build_id_attribute,
    is_set_and_known,
    join_id_parts,
)
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.values.typed_value import UNKNOWN

Values = Mapping[str, Any]
_API_PATH: Final = re.compile(r"^spec[A-Za-z.\[\]0-9]*: ")
CONFLICT: Final = "conflicting-arguments"
MISSING: Final = "missing-required-argument"


# path of the error for a placement without selectors.
NO_SELECTOR: Final = ("resource_selector",)


class FleetKind(Struct, frozen=True):
    """Kind of the fleet API.

    `spec` is the schema of its blocks.
    """

    kind: str
    spec: BlockSchema
    is_namespaced: bool = False

    def read_document(self, attributes: Values) -> FleetDocument | None:
        """Return the parsed manifest; None without one, or if it is unknown."""
        text = attributes.get("manifest")
        if not isinstance(text, str):
            return None
        lenient = attributes.get("lenient") is True
        return parse_manifest(text, self.kind, self.spec, lenient=lenient)

    def read_blocks(self, attributes: Values) -> FleetDocument:
        """Return the blocks, read as the manifest with the same values."""
        body = {
            "apiVersion": BLOCK_API_VERSION,
            "kind": self.kind,
            # Checked apart, since the plan may set it.
            "metadata": {"name": "name"},
            "spec": build_block_body(self.spec, attributes),
        }
        return read_fleet_object(
            "",
            YamlDocument(body, TextPosition(0, 0)),
            API_KINDS[self.kind],
            self.spec,
            lenient=attributes.get("lenient") is True,
        )

    def read_arguments(self, attributes: Values) -> Values:
        """Return the arguments, from the manifest if set, else from the blocks."""
        document = self.read_document(attributes)
        return attributes if document is None else document.values

    def fill(self, attributes: Values) -> dict[str, Any]:
        """Return name and namespace from the manifest, as computed values of these arguments.

        They are UNKNOWN while the manifest is unknown. The result is {} without a manifest. Only
        namespaced kinds have a namespace.
        """
        document = self.read_document(attributes)
        if attributes.get("manifest") is UNKNOWN:
            names = {"name": UNKNOWN, "namespace": UNKNOWN}
        elif document is None:
            return {}
        else:
            names = {
                "name": document.name or None,
                "namespace": document.namespace or "default",
            }  # None: missing
        if not self.is_namespaced:
            del names["namespace"]
        return names

    def build_id(self, attributes: Values) -> str:
        """Return the id: `<name>`, or `<namespace>/<name>`."""
        if self.is_namespaced:
            return join_id_parts(attributes.get("namespace"), attributes.get("name"))
        return join_id_parts(attributes.get("name"))

    def collect_problems(self, attributes: Values, findings: Iterable[Problem]) -> list[Problem]:
        """Return all problems: of the manifest, of names, and the `findings` about its arguments.

        Required arguments may be absent with a manifest. Blocks are checked like the manifest with
        the same values.
        """
        if attributes.get("manifest") is UNKNOWN:
            # checked once it is known.
            return []
        # "..." in place of selectors is accepted: they are not missing.
        if attributes.get("lenient") is True:
            findings = [finding for finding in findings if finding.path != NO_SELECTOR]
        document = self.read_document(attributes)
        problems = self._check_names(attributes, document)
        # configured as blocks.
        if document is None:
            problems += [
                Problem((), MISSING, f'The argument "{name}" is required, or a manifest.')
                for name, attribute in self.spec.attributes.items()
                if attribute.required and attributes.get(name) is None
            ]
            findings = [*findings]
            findings += self._list_block_findings(attributes, [*problems, *findings])
        else:
            problems += self._check_conflicts(attributes, document)
            problems += build_line_problems(document.findings, "manifest")
        return problems + remove_unknown_part_problems(
            attributes, build_problems(findings, document)
        )

    def _list_required_names(self) -> list[str]:
        """Return the arguments that blocks require."""
        names = [name for name, attribute in self.spec.attributes.items() if attribute.required]
        return [*names, "namespace"] if self.is_namespaced else names

    def _list_block_findings(
        self, attributes: Values, others: Sequence[Problem]
    ) -> Iterator[Problem]:
        """Yield the findings about blocks that a manifest with the same values has.

        Those about a part with another finding, in the words of blocks, are left out.
        """
        reported = [problem.path for problem in others]
        has_missing = any(attributes.get(name) is None for name in self._list_required_names())
        for finding in self.read_blocks(remove_unknown_values(attributes)).findings:
            is_reported = any(
                path[: len(finding.path)] == finding.path[: len(path)] for path in reported if path
            )
            if is_reported or (has_missing and len(finding.path) == 1):
                continue
            # Without the API path of a part that has a line of its own.
            detail = _API_PATH.sub("", finding.detail).removesuffix(".")
            kind = INVALID if finding.severity is Severity.ERROR else finding.id
            yield Problem(finding.path, kind, detail, finding.severity)

    def _check_names(self, attributes: Values, document: FleetDocument | None) -> list[Problem]:
        """Return the problems of name and namespace.

        They are located in the manifest if name and namespace are there.
        """
        problems = []
        name = attributes.get("name")
        # Not missing or unknown.
        if isinstance(name, str):
            problems += _locate_name_problems("name", check_name(name), document)
        namespace = attributes.get("namespace")
        if not self.is_namespaced:
            return problems
        if namespace is None:
            text = 'The argument "namespace" is required, but no definition was found.'
            problems.append(Problem((), MISSING, text))
        elif isinstance(namespace, str):
            path = ("namespace",)
            subject = f'namespace "{namespace}"'
            errors = [
                build_error(path, f"{subject}: {problem}")
                for problem in validate_dns_label(namespace)
            ]
            problems += _locate_name_problems("namespace", errors, document)
        return problems

    def _check_conflicts(self, attributes: Values, document: FleetDocument) -> Iterator[Problem]:
        """Yield errors for arguments set both directly and in the manifest.

        Name and namespace may be set twice if they are equal; no other argument of the object may
        be set with a manifest.
        """
        for argument, manifest_value in (
            ("name", document.name),
            ("namespace", document.namespace),
        ):
            value = attributes.get(argument)
            is_set_twice = is_set_and_known(value) and manifest_value != ""
            if is_set_twice and value != manifest_value:
                text = (
                    f'{argument} is "{value}", but the manifest has "{manifest_value}". Remove '
                    "one of them."
                )
                yield Problem((argument,), CONFLICT, text)
        # Of arguments and blocks.
        set_names: list[str] = []
        for name, attribute in self.spec.attributes.items():
            # Else not configured.
            if attributes.get(name) not in (None, attribute.default, []):
                set_names.append(name)
        # Without absent and empty blocks.
        set_names += [name for name in self.spec.blocks if attributes.get(name)]
        for name in set_names:
            text = f'The object is set as manifest, so "{name}" cannot be set as well.'
            yield Problem((name,), CONFLICT, text)


def _locate_name_problems(
    argument: str, findings: Iterable[Problem], document: FleetDocument | None
) -> list[Problem]:
    """Return findings about a name.

    Located in the manifest if it is there, else at the argument.
    """
    if document is None or ("metadata", argument) not in document.locations:
        return build_problems(findings)
    return build_problems((finding.prepend_path("metadata") for finding in findings), document)


def build_fleet_type(
    name: str,
    fleet: FleetKind,
    description: str,
    *,
    read: Callable[[Values, Values], FleetObject],
    findings: Callable[[FleetObject, Values], Iterable[Problem]],
    values: Mapping[str, AttributeSchema] = {},
    private: Mapping[str, AttributeSchema] = {},
    phase: int = 5,
    manifest: AttributeSchema = MANIFEST,
    concurrent_types: tuple[str, ...] = (),
    consequences: ConsequenceTable = NO_CONSEQUENCES,
) -> FleetObjectType:
    """Build a resource type of the fleet API.

    `read(attributes, arguments)` returns its object, and `findings(object, arguments)` its
    problems. `values` are attributes outside the manifest, `private` the checked private data. An
    apply of `concurrent_types` may wait for this type (a run for its approval), so both start
    together. Types of a lower `phase` are planned first.
    """
    schema = BlockSchema(
        {
            "id": build_id_attribute("<namespace>/<name>" if fleet.is_namespaced else "<name>"),
            "name": make_name(fleet.kind),
            **({"namespace": make_namespace()} if fleet.is_namespaced else {}),
            "manifest": manifest,
            "lenient": LENIENT,
            "force_conflicts": FORCE_CONFLICTS,
            **{
                n: replace(a, required=False, optional=True)
                for n, a in fleet.spec.attributes.items()
            },
            **values,
        },
        fleet.spec.blocks,
        description,
        private=private,
    )

    def read_fleet_object(attributes: Values) -> FleetObject:
        return read(attributes, fleet.read_arguments(attributes))

    def check(attributes: Values) -> list[Problem]:
        known_values = remove_unknown_values(attributes)
        arguments = fleet.read_arguments(known_values)
        return fleet.collect_problems(
            attributes, findings(read(known_values, arguments), arguments)
        )

    return FleetObjectType(
        name=name,
        phase=phase,
        schema=schema,
        build_id=fleet.build_id,
        check=check,
        fill=fleet.fill,
        build_fleet_object=read_fleet_object,
        concurrent_types=concurrent_types,
        consequences=consequences,
    )


def remove_unknown_values(attributes: Values) -> Values:
    """Return the attributes without unknown parts."""
    values: Values = replace_unknown(dict(attributes))
    return values
