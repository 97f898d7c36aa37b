"""An ARM template -> the clusters, agent pools and VMs of Operator Nexus that a deployment puts in place.

Children may be nested in their parent or stand beside it under a name in two parts; modules of Bicep are
nested deployments. A deployment removes nothing (mode Incremental).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics import Problem, did_you_mean
from nexusform.documents.leaves import LEFT_OUT, rebuilt
from nexusform.documents.shapes import mapping_at, mappings_at
from nexusform.domains.azure.importers.arm import SHAPE, kind_of
from nexusform.domains.azure.importers.arm_expressions import Missing, Scope, evaluated, rounds, text_value
from nexusform.domains.azure.importers.az_changes import KIND_OF, POOLS, AzAction, AzChange
from nexusform.domains.azure.importers.az_documents import parse_json
from nexusform.graph import cycles, ordered
from nexusform.plain_data import Path

_DEPLOYMENT: Final = "microsoft.resources/deployments"
_NOT_A_TEMPLATE: Final = "not-an-arm-template"
_MOST_RESOURCES: Final = 10_000
_DEEPEST: Final = 10


def read_arm_template(
    file: str, content: bytes, parameters: Sequence[tuple[str, bytes]] = ()
) -> tuple[tuple[AzChange, ...], list[Problem]]:
    """What a template puts in place, in the order of its dependencies, and what is wrong with it. The values
    of parameters come from parameter files, the last one that names a parameter winning.
    """
    template, problem = parse_json(file, content)
    if problem is None and not (isinstance(template, Mapping) and "resources" in template):
        detail = 'this is no ARM template: it has no "resources". Bicep is read with the ending .bicep.'
        problem = Problem((), _NOT_A_TEMPLATE, detail, file=file)
    if problem is not None:
        return (), [problem]
    values, problems = _parameter_values(parameters, template)
    reading = _Reading(file, problems)
    reading.template(template, _Template(template, values), ())
    return reading.in_order(), problems


def _parameter_values(
    files: Sequence[tuple[str, bytes]], template: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Problem]]:
    """The values that parameter files give, by name in lower case."""
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    declared = mapping_at(template, "parameters")
    for name, content in files:
        document, problem = parse_json(name, content)
        if problem is not None:
            problems.append(problem)
            continue
        inside = mapping_at(document)
        for parameter, setting in mapping_at(inside.get("parameters", inside)).items():
            if parameter in ("$schema", "contentVersion"):
                continue
            if parameter.lower() not in {one.lower() for one in declared}:
                detail = f'the template has no parameter "{parameter}".{did_you_mean(parameter, declared)}'
                problems.append(Problem((parameter,), "unknown-arm-parameter", detail, file=name))
            values[parameter.lower()] = _value_of(setting, parameter)
    return values, problems


def _value_of(setting: Any, name: str) -> Any:
    if isinstance(setting, Mapping) and "value" in setting:
        return setting["value"]
    if isinstance(setting, Mapping) and "reference" in setting:
        return Missing(f'the parameter "{name}" is a secret of a key vault')
    return setting


class _Template:
    """What names mean in one template; values are evaluated when they are first asked for."""

    def __init__(self, template: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        self._parameters = {name.lower(): one for name, one in mapping_at(template, "parameters").items()}
        variables = dict(mapping_at(template, "variables"))
        self._loops = variables.pop("copy", [])
        self._variables = {name.lower(): one for name, one in variables.items()}
        self._known: dict[tuple[str, str], Any] = {
            ("parameter", name): value for name, value in settings.items()
        }

    def parameter(self, name: str) -> Any:
        """The value that was given, else the default."""
        return self._once("parameter", name, self._default)

    def variable(self, name: str) -> Any:
        """Its value."""
        return self._once("variable", name, self._of_variable)

    def copy_index(self, _loop: str) -> Any:
        """There is none outside of a loop."""
        return Missing("copyIndex() stands in no loop")

    def _once(self, kind: str, name: str, find: Any) -> Any:
        key = (kind, name.lower())
        if key not in self._known:
            self._known[key] = Missing(f'the {kind} "{name}" refers to itself')
            self._known[key] = find(name)
        return self._known[key]

    def _default(self, name: str) -> Any:
        declared = self._parameters.get(name.lower())
        if isinstance(declared, Mapping) and "defaultValue" in declared:
            return evaluated(declared["defaultValue"], self)
        if isinstance(declared, Mapping) and declared.get("nullable") is True:
            return None
        return Missing(f'the parameter "{name}" has no value: give it one with -parameters=FILE')

    def _of_variable(self, name: str) -> Any:
        if name.lower() in self._variables:
            return evaluated(self._variables[name.lower()], self)
        for loop in mappings_at(self._loops):
            if str(loop.get("name")).lower() == name.lower():
                return evaluated({"copy": [loop]}, self)[str(loop["name"])]
        return Missing(f'there is no variable "{name}"')


class _Put(Struct, frozen=True):
    """A resource that is put in place: the change, and what it may be called by `dependsOn`."""

    change: AzChange
    depends_on: tuple[str, ...]
    called: tuple[str, ...]


class _Reading:
    """One deployment while it is read. `called` is what names in `dependsOn` lead to."""

    def __init__(self, file: str, findings: list[Problem]) -> None:
        self.file = file
        self.findings = findings
        self.puts: list[_Put] = []
        self.resources = 0

    def template(self, template: Mapping[str, Any], scope: Scope, inside: tuple[str, ...]) -> None:
        """Read the resources of a template. `inside` are the deployments that it is nested in."""
        for symbol, resource in self._listed(template.get("resources"), inside):
            self._resource(resource, scope, (), inside, (symbol,) if symbol else ())

    def in_order(self) -> tuple[AzChange, ...]:
        """The changes, each after what it depends on."""
        by_name: dict[str, list[int]] = {}
        for number, put in enumerate(self.puts):
            for name in put.called:
                by_name.setdefault(name.lower(), []).append(number)
        needs: dict[int, list[int]] = {}
        for number, put in enumerate(self.puts):
            owners = [*put.depends_on, *(put.change.names[:1] if put.change.kind == POOLS else ())]
            numbers = {one for name in owners for one in by_name.get(name.lower(), ())}
            needs[number] = sorted(numbers - {number})
        position = {number: number for number in needs}
        if cycles(needs, position):
            self._say((), "cycle-in-arm-template", "its resources depend on each other in a circle.")
            return ()
        return tuple(self.puts[number].change for number in ordered(needs, position))

    # --- resources ---

    def _resource(
        self,
        resource: Mapping[str, Any],
        scope: Scope,
        parent: tuple[tuple[str, str], ...],
        inside: tuple[str, ...],
        called: tuple[str, ...],
    ) -> None:
        """One resource, in every round of its loop. `parent` are types and names of what it is nested in."""
        loop = resource.get("copy")
        if loop is None:
            self._resource_once(resource, scope, parent, inside, called)
            return
        if not isinstance(loop, Mapping):
            detail = f'"copy" must be an object and is {kind_of(loop)}.'
            self._say((_place(resource),), SHAPE, detail)
            return
        name = str(evaluated(loop.get("name"), scope))
        scopes = rounds(loop, name, scope, lambda within: within)
        if isinstance(scopes, Missing):
            self._say((name,), "not-known-in-the-plan", f"{scopes.why}, so nobody can tell what is made.")
            return
        for within in scopes:
            self._resource_once(resource, within, parent, inside, (*called, name))

    def _resource_once(
        self,
        resource: Mapping[str, Any],
        scope: Scope,
        parent: tuple[tuple[str, str], ...],
        inside: tuple[str, ...],
        called: tuple[str, ...],
    ) -> None:
        """Read a resource in one round, and those inside it. `parent` are type and name of what it stands in,
        `inside` the deployments, `called` the symbolic names by which others depend on it.
        """
        self.resources += 1
        if self.resources == _MOST_RESOURCES + 1:
            detail = f"a template may make {_MOST_RESOURCES} resources; what comes after them is not read."
            self._say((), "arm-template-too-large", detail)
        condition = evaluated(resource.get("condition", True), scope)
        if self.resources > _MOST_RESOURCES or condition is False or resource.get("existing") is True:
            return
        type_name = resource.get("type")
        if not isinstance(type_name, str) or not type_name:
            self._say_wrong(resource, "type", "a resource type", type_name)
            return
        if parent and "/" not in type_name:
            type_name = f"{parent[-1][0]}/{type_name}"
        if type_name.lower() == _DEPLOYMENT:
            self._deployment(resource, scope, inside)
            return
        kind = KIND_OF.get(type_name.lower())
        if kind is None:
            return
        name = self._name(resource, condition, scope)
        if name is None:
            return
        names = tuple(name.split("/"))
        if parent and len(names) == 1:
            names = (parent[-1][1], *names)
        self._put(resource, scope, (kind, names, type_name), called)
        children = resource.get("resources") or []
        for symbol, child in self._listed(children, (*inside, _place(resource))):
            here = (type_name, names[-1])
            self._resource(child, scope, (*parent, here), inside, (symbol,) if symbol else ())

    def _name(self, resource: Mapping[str, Any], condition: Any, scope: Scope) -> str | None:
        """The name of a resource that is made; None where that cannot be told, which is said."""
        name = evaluated(resource.get("name"), scope)
        unknown = next((one for one in (name, condition) if isinstance(one, Missing)), None)
        if unknown is not None:
            detail = f"{unknown.why}, so nobody can tell what is made."
            self._say((_place(resource),), "not-known-in-the-plan", detail)
        elif not isinstance(condition, bool):
            self._say_wrong(resource, "condition", "true or false", condition)
        elif isinstance(name, str) and name:
            return name
        else:
            self._say_wrong(resource, "name", "a name", name)
        return None

    def _put(
        self,
        resource: Mapping[str, Any],
        scope: Scope,
        what: tuple[str, tuple[str, ...], str],
        called: tuple[str, ...],
    ) -> None:
        """Note one resource of a kind that nexusform knows, with what it depends on."""
        kind, names, type_name = what
        if len(names) != (2 if kind == POOLS else 1):
            detail = f'"{"/".join(names)}" is no name of a {type_name}: write "cluster/pool" for a pool.'
            self._say(("/".join(names),), SHAPE, detail)
            return
        unknown: dict[Path, str] = {}
        parts = {
            name: resource[name]
            for name in ("properties", "location", "extendedLocation")
            if name in resource
        }

        def known(path: Path, leaf: Any) -> Any:
            if not isinstance(leaf, Missing):
                return LEFT_OUT if leaf is None else leaf
            unknown[path] = leaf.why
            return LEFT_OUT

        body = rebuilt(evaluated(parts, scope), known)
        place = f"{type_name.rpartition('/')[2]}/{'/'.join(names)}"
        change = AzChange(
            kind=kind,
            names=names,
            action=AzAction.PUT,
            place=place,
            file=self.file,
            id="",
            body=body,
            unknown=unknown,
        )
        depends = resource.get("dependsOn") or []
        if not isinstance(depends, list) or not all(isinstance(one, str) for one in depends):
            self._say(
                (place, "dependsOn"), SHAPE, f"a list of strings is needed here: {json.dumps(depends)}."
            )
            return
        values = [text_value(one, scope) for one in depends]
        depends_on = tuple(
            str(value).rpartition("/providers/")[2] for value in values if not isinstance(value, Missing)
        )
        full = "/".join([type_name.split("/")[0], *_alternating(type_name, names)])
        self.puts.append(_Put(change, depends_on, (*called, full, names[-1], "/".join(names))))

    # --- nested deployments ---

    def _deployment(self, resource: Mapping[str, Any], scope: Scope, inside: tuple[str, ...]) -> None:
        """Read the template of a nested deployment, in the scope that it asks for."""
        properties = mapping_at(resource, "properties")
        template = properties.get("template")
        name = _place(resource)
        if not isinstance(template, Mapping):
            detail = "it is linked, and only what stands in the template itself is read."
            self._say((name,), "deployment-not-read", detail)
            return
        if len(inside) >= _DEEPEST:
            self._say((name,), "deployment-not-read", "deployments are nested too deeply.")
            return
        options = mapping_at(properties, "expressionEvaluationOptions")
        if str(options.get("scope")).lower() != "inner":
            self.template(template, scope, (*inside, name))
            return
        settings = {
            parameter.lower(): evaluated(_value_of(value, parameter), scope)
            for parameter, value in mapping_at(properties, "parameters").items()
        }
        self.template(template, _Template(template, settings), (*inside, name))

    def _listed(self, resources: Any, inside: tuple[str, ...]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Resources with their symbolic names ("": none); what is none is said."""
        path = (*inside, "resources")
        if isinstance(resources, Mapping):
            named = [(name, (*path, name), one) for name, one in resources.items()]
        elif isinstance(resources, list):
            named = [("", (*path, number), one) for number, one in enumerate(resources)]
        else:
            self._say(
                path, SHAPE, f"a list or an object of resources is needed here, not {kind_of(resources)}."
            )
            return
        for name, at, one in named:
            if isinstance(one, Mapping):
                yield name, one
            else:
                self._say(at, SHAPE, f"an object is needed here, not {kind_of(one)}.")

    def _say_wrong(self, resource: Mapping[str, Any], name: str, needed: str, value: Any) -> None:
        shown = "missing" if value is None else kind_of(value)
        self._say((_place(resource),), SHAPE, f'its "{name}" must be {needed} and is {shown}.')

    def _say(self, path: Path, kind: str, detail: str) -> None:
        self.findings.append(Problem(path, kind, detail, file=self.file))


def _place(resource: Mapping[str, Any]) -> str:
    """What people call a resource whose name may not be told."""
    words = [resource.get("type"), resource.get("name")]
    shown = [word if isinstance(word, str) and word else "?" for word in words]
    return f"{shown[0].rpartition('/')[2]} {shown[1]}"


def _alternating(type_name: str, names: Sequence[str]) -> Iterator[str]:
    for kind, name in zip(type_name.split("/")[1:], names, strict=False):
        yield kind
        yield name
