"""Evaluation, naming and checks of the arguments of an instance."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER
from nexusform.configuration.prepared_body import EvaluationResult
from nexusform.diagnostics.diagnostic import Diagnostic, Problem, build_error, has_errors
from nexusform.json_data.plain_data import Path, convert_to_plain, get_mapping
from nexusform.json_data.secret_paths import find_secret_paths
from nexusform.planning.instances.attribute_differences import (
    apply_ignore_changes,
    find_null_elements,
    find_unknown_placement_paths,
)
from nexusform.planning.instances.instance import SENSITIVE_PLACEMENT, UNKNOWN_PLACEMENT, Instance
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.schemas.block_schema import (
    UNFINISHED_KEY,
    AttributeSchema,
    BlockSchema,
    Nesting,
    find_schema,
)
from nexusform.schemas.value_types import MapType
from nexusform.values.typed_value import UNKNOWN


def evaluate_arguments(
    instance: Instance, evaluation: Evaluation, edits: Sequence[ArgumentAdjustment] = ()
) -> list[Diagnostic]:
    """Evaluate, complete and check the arguments of the instance, and return the problems.

    Errors mark it as invalid. Arguments under ignore_changes keep their prior values. The `edits`
    of a hypothetical plan replace configured arguments, also those under ignore_changes.
    """
    assert instance.prepared is not None
    assert instance.module is not None
    assert instance.repetition is not None
    resource_type = instance.type
    scope = evaluation.build_scope(instance.module, instance.repetition)
    # Problems, sensitive paths and refinements of unknown values.
    remarks = EvaluationResult()
    arguments = edit_arguments(instance.prepared.fill(scope, remarks), edits)
    write_only_problems = _replace_write_only(instance, arguments, remarks, evaluation)
    instance.arguments = replace(instance.arguments, refined=tuple(remarks.refinements))
    address = str(instance.address)
    block = instance.block_header
    diagnostics = [replace(problem, address=address, block=block) for problem in remarks.problems]
    diagnostics += [*write_only_problems, *_check_null_elements(instance, arguments)]
    unpacked, problems = resource_type.unpack_arguments(arguments, evaluation.settings.files)
    # Arguments read from a file that another argument names.
    arguments |= unpacked
    diagnostics += instance.build_diagnostics(problems)
    # Defaults of omitted arguments, derived from others.
    derived_defaults = resource_type.fill(arguments)
    arguments |= {
        name: value for name, value in derived_defaults.items() if arguments.get(name) is None
    }
    diagnostics += _set_default_name(instance, arguments)
    diagnostics += _remove_observed_arguments(instance, arguments)
    sensitive = _add_computed_paths_exposing_secrets(resource_type.schema, tuple(remarks.sensitive))
    instance.arguments = replace(
        instance.arguments,
        sensitive=sensitive,
        secrets=(
            *resource_type.list_secrets(arguments),
            *find_secret_paths(resource_type.schema, arguments),
        ),
    )
    secret_problems = _check_secret_placements(instance)
    diagnostics += secret_problems
    # Else a check could reveal the secret.
    if not secret_problems:
        diagnostics += [
            instance.build_diagnostic(problem, arguments)
            for problem in resource_type.check(arguments)
        ]
    if instance.prior is not None:
        # Prior values replace new ones of the same meaning. `problems` are about the changes.
        adjusted, problems = resource_type.adjust(arguments, instance.prior.attributes)
        arguments |= adjusted
        # A change that failed may be undone.
        if UNFINISHED_KEY not in instance.prior_note:
            diagnostics += instance.build_diagnostics(problems)
    instance.is_invalid |= has_errors(diagnostics)
    config = arguments
    lifecycle = instance.lifecycle
    if instance.before is not None:
        ignored = lifecycle.ignore_changes
        config = apply_ignore_changes(
            arguments, instance.before, ignored, everything=lifecycle.ignore_all
        )
    config = edit_arguments(config, edits)
    instance.arguments = replace(instance.arguments, config=config)
    return diagnostics


def edit_arguments(
    arguments: dict[str, Any], edits: Sequence[ArgumentAdjustment]
) -> dict[str, Any]:
    """Return the arguments after the edits of a hypothetical plan."""
    for edit in edits:
        arguments = _replace_at_path(arguments, edit.path, edit.value)
    return arguments


def _replace_at_path(config: dict[str, object], path: Path, value: object) -> dict[str, object]:
    """Return a copy of the arguments with another value at a path.

    A missing block on the path is created.
    """
    copy = dict(config)
    name = str(path[0])
    inner_path = path[1:]
    if not inner_path:
        copy[name] = value
        return copy
    inner = copy.get(name)
    index = inner_path[0]
    # One of several blocks.
    if isinstance(inner, list) and isinstance(index, int):
        blocks = list(inner)
        blocks[index] = _replace_at_path(blocks[index], inner_path[1:], value)
        copy[name] = blocks
        return copy
    block = dict(inner) if isinstance(inner, dict) else {}
    copy[name] = _replace_at_path(block, inner_path, value)
    return copy


# Shorter texts occur in names by chance.
_MINIMUM_SECRET_LENGTH: Final = 4


def _replace_write_only(
    instance: Instance, arguments: dict[str, Any], remarks: EvaluationResult, evaluation: Evaluation
) -> list[Diagnostic]:
    """Set write-only arguments to null, add the public values in them, and return the problems.

    Public values are, for example, names and labels. Plans and state show them, so an ephemeral
    text in one is a problem.
    """
    split = instance.type.split_write_only_body
    if split is None:
        return []
    names = instance.type.schema.write_only_names
    public, problems = split(arguments)
    # None for each name.
    arguments |= {**public, **dict.fromkeys(names)}
    remarks.sensitive = [path for path in remarks.sensitive if path[0] not in names]
    remarks.refinements = [
        (path, refinement) for path, refinement in remarks.refinements if path[0] not in names
    ]
    exposures: list[Problem] = []
    for name in _find_exposed_variables(public, evaluation):
        # All public values: a plan may not show the text.
        arguments.update(dict.fromkeys(public, UNKNOWN))
        detail = (
            f'A name or label of this object contains the ephemeral variable "{name}", and every '
            "plan shows those. Use "
            "values that are not ephemeral there."
        )
        exposures.append(Problem((names[0],), "invalid-use-of-ephemeral-value", detail))
    # With an exposed text, the other problems could quote it.
    return instance.build_diagnostics(exposures or problems)


def _find_exposed_variables(public: Mapping[str, Any], evaluation: Evaluation) -> Iterator[str]:
    """Yield the names of ephemeral root variables exposed by the `public` values, shown in plans.

    A variable is exposed if a public value contains one of its texts. Short texts are ignored: they
    occur by chance.
    """
    text = "\n".join(map(str, public.values()))
    for name, value in evaluation.settings.variables.items():
        declared = evaluation.settings.configuration.root.variables.get(name)
        if declared is None or not declared.ephemeral:
            continue
        from nexusform.documents.scalars import list_scalars

        secrets = [
            str(scalar)
            for _, scalar in list_scalars(convert_to_plain(value)[0])
            if scalar is not UNKNOWN
        ]
        long_secrets = [secret for secret in secrets if len(secret) >= _MINIMUM_SECRET_LENGTH]
        if any(secret in text for secret in long_secrets):
            yield name


def _check_null_elements(instance: Instance, arguments: dict[str, Any]) -> list[Diagnostic]:
    """Return an error per list, set or map of scalars with a null among its elements."""
    diagnostics = []
    for path in find_null_elements(instance.type.schema, arguments):
        name = format_argument(path, instance.type.schema)
        detail = f'"{name}" holds a null value. Remove the element, for example with compact().'
        diagnostics.append(instance.build_error("null-value-in-a-collection", detail, path))
    return diagnostics


def _set_default_name(instance: Instance, arguments: dict[str, Any]) -> list[Diagnostic]:
    """Set the default of `name`: the object's current name, else the block's name.

    The current name is kept for objects moved to a block of another name. The block's name is no
    default if several instances would share it.
    """
    name = instance.type.schema.attributes.get("name")
    # The type has no name, or it is set.
    if name is None or arguments.get("name") is not None:
        return []
    block = instance.block
    assert block is not None
    if block.count is None and block.for_each is None:
        arguments["name"] = get_mapping(instance.before).get("name") or block.name
        return []
    key = "each.key" if block.for_each is not None else "count.index"
    return [
        build_error(
            "missing-required-argument",
            'The argument "name" must be set for a block with several instances: the block\'s own '
            f'name can be used only once. Example: name = "{block.name}-${{{key}}}".',
            block.header_span,
            address=str(instance.address),
            block=block.header,
        )
    ]


def _remove_observed_arguments(instance: Instance, arguments: dict[str, Any]) -> list[Diagnostic]:
    """Set arguments observed by a real provider to null, or to the observed value.

    Return an error for each configured one, unless configured values are ignored.
    """
    assert instance.prepared is not None
    assert instance.block is not None
    provider = instance.block.provider.partition(".")[0]
    # The simulated one observes nothing.
    if provider in {"", DEFAULT_PROVIDER}:
        return []
    rejected_names = []
    for name, attribute in instance.type.schema.attributes.items():
        if not attribute.observed:
            continue
        if not attribute.is_ignored_if_observed:
            rejected_names.append(name)
            arguments[name] = None
        # Before it is observed, the argument or its default counts.
        elif get_mapping(instance.before).get(name) is not None:
            arguments[name] = get_mapping(instance.before)[name]
    return [
        instance.build_error(
            "value-for-unconfigurable-attribute",
            (
                f'Can\'t configure a value for "{name}" under provider {provider}: it is '
                "observed. Delete this line."
            ),
            (name,),
        )
        for name in rejected_names
        if instance.prepared.is_configured(name)
    ]


def _add_computed_paths_exposing_secrets(
    schema: BlockSchema, sensitive: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Return the sensitive paths, and those of attributes that display the same values.

    Such attributes are computed (`displayed_in`).
    """
    paths = list(sensitive)
    for path in sensitive:
        # Deeper parts are displayed nowhere.
        if len(path) > 1:
            continue
        attribute = schema.attributes.get(str(path[0]))
        if attribute is not None:
            paths += [(name,) for name in attribute.displayed_in]
    return tuple(dict.fromkeys(paths))  # without duplicates


def _check_secret_placements(instance: Instance) -> list[Diagnostic]:
    """Return errors for sensitive values in names and placements: every plan shows those."""
    diagnostics = []
    for path in instance.arguments.sensitive:
        attribute = find_schema(instance.type.schema, path)
        if not isinstance(attribute, AttributeSchema) or isinstance(attribute.type, MapType):
            # A sensitive value in a map, such as a label, is hidden.
            continue
        # A value displayed in other attributes makes these sensitive instead.
        if attribute.displayed_in or attribute.allows_sensitive:
            continue
        if not attribute.decides_placement:
            continue
        detail = (
            f'"{format_argument(path, instance.type.schema)}" affects a name or a location, and '
            "every plan shows those, so it cannot be sensitive. Wrap it in nonsensitive() if it "
            "may be shown."
        )
        diagnostics.append(instance.build_error(SENSITIVE_PLACEMENT, detail, path))
    return diagnostics


def find_unknown_placement_arguments(instance: Instance) -> tuple[Path, ...]:
    """Return the unknown arguments that determine placements."""
    return tuple(find_unknown_placement_paths(instance.type.schema, get_mapping(instance.config)))


def build_unknown_placement_error(instance: Instance, path: Path) -> Diagnostic:
    """Build the error for an unknown argument that determines placements."""
    name = format_argument(path, instance.type.schema)
    return instance.build_error(
        UNKNOWN_PLACEMENT,
        f'"{name}" affects the placement, so it must be known in the plan. Its value is known only '
        "after apply. Use a literal, a variable, or an attribute that nexusform computes in the "
        "plan (ids, names, placements); timestamp() and uuid() are known only after apply.",
        path,
    )


def format_argument(path: Path, schema: BlockSchema) -> str:
    """Format a path as in a configuration: `agent_pool["np1"].count`."""
    # With `is_label`, the next step is the label of a block.
    text = ""
    is_label = False
    inner = schema
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        if is_label:
            text += f'["{step}"]'
            is_label = False
            continue
        # None before the first step.
        dot = "." if text else ""
        text += f"{dot}{step}"
        block = inner.blocks.get(step)
        if block is not None:
            is_label = block.nesting is Nesting.MAP
            inner = block.schema
    return text
