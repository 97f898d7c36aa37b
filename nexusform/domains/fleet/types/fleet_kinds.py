"""A fleet type that may be written as blocks or as a manifest: its arguments, whichever way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem
from nexusform.domains.fleet.importers.fleet_documents import FleetDocument
from nexusform.domains.fleet.importers.fleet_model import FleetObject
from nexusform.domains.fleet.scheduling.validation import check_name, invalid
from nexusform.domains.fleet.types.fleet_reading import (
    document_of,
    finding_problems,
    known_only,
    line_problems,
    without_unknown,
)
from nexusform.domains.fleet.types.fleet_schemas import (
    FORCE_CONFLICTS,
    LENIENT,
    MANIFEST,
    filled_name,
    filled_namespace,
)
from nexusform.kubernetes.matching import dns_label_problems
from nexusform.ports import ResourceType
from nexusform.resource_types.shared_arguments import id_attribute, is_known, joined_id
from nexusform.schema import Attribute, BlockSchema
from nexusform.values import UNKNOWN

Values = Mapping[str, Any]
CONFLICT: Final = "conflicting-arguments"
MISSING: Final = "missing-required-argument"


class FleetKind(Struct, frozen=True):
    """A kind of the fleet API. `spec` holds what its blocks may say."""

    kind: str
    spec: BlockSchema
    namespaced: bool = False

    def document(self, attributes: Values) -> FleetDocument | None:
        """The manifest as read; None without one, or while it is not known."""
        text = attributes.get("manifest")
        if not isinstance(text, str):
            return None
        lenient = attributes.get("lenient") is True
        return document_of(text, self.kind, self.spec, lenient=lenient)

    def arguments(self, attributes: Values) -> Values:
        """The arguments: of the manifest where there is one, else the blocks."""
        document = self.document(attributes)
        return attributes if document is None else document.values

    def fill(self, attributes: Values) -> dict[str, Any]:
        """Name and namespace from the manifest; unknown as long as it is."""
        if attributes.get("manifest") is UNKNOWN:
            return dict.fromkeys(("name", "namespace") if self.namespaced else ("name",), UNKNOWN)
        document = self.document(attributes)
        if document is None:
            return {}
        names = {"name": document.name or None}
        if self.namespaced:
            names["namespace"] = document.namespace or "default"
        return names

    def identify(self, attributes: Values) -> str:
        """The id: `<name>`, or `<namespace>/<name>`."""
        if self.namespaced:
            return joined_id(attributes.get("namespace"), attributes.get("name"))
        return joined_id(attributes.get("name"))

    def problems(self, attributes: Values, findings: Iterable[Problem]) -> list[Problem]:
        """Everything that is wrong: with the manifest itself, with names, and the given findings about
        its arguments.
        """
        if attributes.get("manifest") is UNKNOWN:
            return []
        document = self.document(attributes)
        problems = self._name_problems(attributes, document)
        if document is None:
            problems += self._missing(attributes)
            problems += _lenient_without_manifest(attributes)
        else:
            problems += self._beside_manifest(attributes, document)
            problems += line_problems(document.findings, "manifest")
        return problems + known_only(attributes, finding_problems(findings, document))

    def _name_problems(self, attributes: Values, document: FleetDocument | None) -> list[Problem]:
        """What is wrong with name and namespace."""
        problems = []
        name = attributes.get("name")
        if isinstance(name, str):
            problems += _at_the_name("name", check_name(name), document)
        namespace = attributes.get("namespace")
        if self.namespaced and namespace is None:
            text = 'The argument "namespace" is required, but no definition was found.'
            problems.append(Problem((), MISSING, text))
        elif self.namespaced and isinstance(namespace, str):
            wrong = [f'namespace "{namespace}": {problem}' for problem in dns_label_problems(namespace)]
            problems += _at_the_name(
                "namespace", [invalid(("namespace",), detail) for detail in wrong], document
            )
        return problems

    def _missing(self, attributes: Values) -> Iterator[Problem]:
        for name, attribute in self.spec.attributes.items():
            if attribute.required and attributes.get(name) is None:
                yield Problem((), MISSING, f'The argument "{name}" is required, or a manifest.')

    def _beside_manifest(self, attributes: Values, document: FleetDocument) -> Iterator[Problem]:
        """Arguments that say what the manifest says."""
        for argument, said in (("name", document.name), ("namespace", document.namespace)):
            if argument == "namespace" and not self.namespaced:
                continue
            value = attributes.get(argument)
            if is_known(value) and said and value != said:
                text = f'{argument} is "{value}" and the manifest says "{said}"; leave one of them out.'
                yield Problem((argument,), CONFLICT, text)
        written = [
            name
            for name, attribute in self.spec.attributes.items()
            if attributes.get(name) not in (None, attribute.default, [])
        ]
        written += [name for name in self.spec.blocks if attributes.get(name)]
        for name in written:
            text = f'The object is given as manifest, so "{name}" cannot be given beside it.'
            yield Problem((name,), CONFLICT, text)


def _at_the_name(argument: str, findings: Iterable[Problem], document: FleetDocument | None) -> list[Problem]:
    """Findings about a name: where the manifest says it, or at the argument."""
    if document is None or ("metadata", argument) not in document.places:
        return finding_problems(findings)
    return finding_problems((each.below("metadata") for each in findings), document)


def _lenient_without_manifest(attributes: Values) -> Iterator[Problem]:
    if attributes.get("lenient") is True:
        text = "lenient says how a manifest is read, and there is none here; take it out."
        yield Problem(("lenient",), CONFLICT, text)


def fleet_type(
    name: str,
    fleet: FleetKind,
    description: str,
    *,
    read: Callable[[Values, Values], FleetObject],
    findings: Callable[[FleetObject, Values], Iterable[Problem]],
    values: Mapping[str, Attribute] | None = None,
    phase: int = 5,
    manifest: Attribute = MANIFEST,
    goes_beside: tuple[str, ...] = (),
) -> ResourceType:
    """A resource type of the fleet API. `read(attributes, arguments)` gives what it is, `findings(object,
    arguments)` what is wrong with it; `values` are attributes that no manifest holds.
    """
    schema = BlockSchema(
        {
            "id": id_attribute("<namespace>/<name>" if fleet.namespaced else "<name>"),
            "name": filled_name(fleet.kind),
            **({"namespace": filled_namespace()} if fleet.namespaced else {}),
            "manifest": manifest,
            "lenient": LENIENT,
            "force_conflicts": FORCE_CONFLICTS,
            **{n: _optional(a) for n, a in fleet.spec.attributes.items()},
            **(values or {}),
        },
        fleet.spec.blocks,
        description,
    )

    def fleet_object(attributes: Values) -> FleetObject:
        return read(attributes, fleet.arguments(attributes))

    def check(attributes: Values) -> list[Problem]:
        known_values = known(attributes)
        arguments = fleet.arguments(known_values)
        return fleet.problems(attributes, findings(read(known_values, arguments), arguments))

    return ResourceType(
        name,
        phase,
        schema,
        fleet.identify,
        check=check,
        fill=fleet.fill,
        fleet=fleet_object,
        goes_beside=goes_beside,
    )


def _optional(attribute: Attribute) -> Attribute:
    """An argument that a manifest may hold instead."""
    return replace(attribute, required=False, optional=True) if attribute.required else attribute


def known(attributes: Values) -> Values:
    """The attributes with unknown parts absent."""
    values: Values = without_unknown(dict(attributes))
    return values
