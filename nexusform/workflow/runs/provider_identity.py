"""Identity of the systems behind providers, recorded in state and plans.

No command continues with a system of another identity.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.interfaces.plugins import Provider, ProviderProblem
from nexusform.json_data.plain_data import get_mapping
from nexusform.providers.optional_provider_interfaces import IdentifiedProvider, IdentityComparison
from nexusform.state.objects import State
from nexusform.workflow.opening.provider_setup import list_objects

ANOTHER_HUB = "another-hub"
UNKNOWN_IDENTITY = "unknown-hub-identity"
NOT_COMPARED = "hub-not-compared"
# By name of the provider: `identity`.
Records = Mapping[str, Mapping[str, Any]]


class IdentityCheck(Struct):
    """Result of a check: identities by provider, and their confirmation.

    `observed` and `confirmed` are the identities by provider. `unconfirmed` has the providers
    without a confirmation.
    """

    observed: dict[str, dict[str, Any]] = field(default_factory=dict)
    confirmed: dict[str, dict[str, Any]] = field(default_factory=dict)
    unconfirmed: dict[str, IdentifiedProvider] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def check_identities(
    providers: Mapping[str, Provider],
    state: State,
    recorded: Records,
    accepted: str,
    *,
    connects: bool = True,
) -> IdentityCheck:
    """Compare the recorded identities with those of the providers.

    `accepted` is the uid of a system permitted in place of a recorded one (-allow-other-hub), or
    "". Without `connects` only settings are compared. Raises ProviderProblem.
    """
    check = IdentityCheck()
    for name, provider in sorted(providers.items()):
        if not isinstance(provider, IdentifiedProvider):
            continue
        identity = get_mapping(recorded.get(name, {}), "identity")
        if connects or provider.has_fixed_identity:
            _check_provider_identity(check, name, provider, state, identity, accepted)
        elif list_objects(state, name):
            not_compared_warning = build_warning(
                NOT_COMPARED,
                f'Provider "{name}": -refresh=false makes no connection, so it is unknown whether '
                "this is the recorded system. An apply compares them before its first step. Plan "
                "without -refresh=false to compare them now.",
            )
            check.diagnostics.append(not_compared_warning)
    return check


def _check_provider_identity(
    check: IdentityCheck,
    name: str,
    provider: IdentifiedProvider,
    state: State,
    recorded: Mapping[str, Any],
    accepted: str,
) -> None:
    """Compare the identity of a provider's system with the `recorded` one.

    The result is added to `check`. `accepted` is the uid of another system permitted by
    -allow-other-hub. Raises ProviderProblem.
    """
    objects = [current.attributes for _, current in list_objects(state, name)]
    try:
        observed = provider.read_identity(recorded, objects)
    except ProviderProblem:
        if objects:
            # Its objects must not be changed through an unknown system.
            raise
        # It has no objects in the state yet.
        return
    # The system has no identity.
    if not observed:
        return
    check.observed[name] = {"identity": dict(observed)}
    comparison = provider.compare_identity(recorded, observed)
    if comparison.difference:
        if accepted in comparison.permitting_flag_values:
            check.confirmed[name] = check.observed[name]
        else:
            check.diagnostics.append(_build_other_system_error(name, comparison))
    elif comparison.obstacle and objects:
        # They cannot be compared. Perhaps it is another system. Then objects missing there may
        # still exist on the recorded one.
        provider.keep_missing_objects()
        check.unconfirmed[name] = provider
        not_compared_warning = build_warning(
            UNKNOWN_IDENTITY,
            f'Provider "{name}": {comparison.obstacle}, so it is unknown whether this is the '
            "recorded system. Objects missing there stay in the state. Allow get of the namespace "
            "kube-system, or of one in use.",
        )
        check.diagnostics.append(not_compared_warning)
    else:
        # The same system, or one without objects in the state.
        check.confirmed[name] = {"identity": _merge_parts(recorded, observed)}


def _build_other_system_error(name: str, comparison: IdentityComparison) -> Diagnostic:
    """Build the error for the provider `name` of another system.

    It names the flag that permits the system.
    """
    detail = (
        f'Provider "{name}" reaches another system than the state records: '
        f"{comparison.difference}. No changes were made. Use the credentials of the recorded one. "
        "After a migration, repeat the command with "
        f"-allow-other-hub={comparison.permitting_flag_values[0]}."
    )
    return build_error(ANOTHER_HUB, detail)


def _merge_parts(recorded: Mapping[str, Any], observed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the observed identity, completed by recorded parts if they were not readable now.

    A part is a value, empty if unreadable, or a mapping of values.
    """
    parts: dict[str, Any] = {}
    for name, value in observed.items():
        if isinstance(value, Mapping):
            parts[name] = {**recorded.get(name, {}), **value}
        else:
            parts[name] = value or recorded.get(name, value)
    return parts


def add_new_identities(
    providers: Mapping[str, Provider], check: IdentityCheck, state: State
) -> State:
    """Return the state after an apply with identities read again.

    If they were incomplete before it.

    For example, the identity of a hub may depend on a namespace created by this apply.
    """
    entries = dict(state.providers)
    for name, entry in check.confirmed.items():
        provider = providers[name]
        identity = entry["identity"]
        if not isinstance(provider, IdentifiedProvider):
            continue
        # An incomplete identity cannot be compared, not even with itself.
        if not provider.compare_identity(identity, identity).obstacle:
            continue  # complete
        objects = [current.attributes for _, current in list_objects(state, name)]
        try:
            entries[name] = {"identity": dict(provider.read_identity(identity, objects))}
        except ProviderProblem:
            # The next plan reads it again.
            continue
    return replace(state, providers=dict(sorted(entries.items())))


def iterate_system_descriptions(
    providers: Mapping[str, Provider], records: Records
) -> Iterator[str]:
    """Yield a title of each system behind a provider, if it has one."""
    for name, record in sorted(records.items()):
        provider = providers.get(name)
        if isinstance(provider, IdentifiedProvider) and (
            title := provider.describe_identity(record["identity"])
        ):
            yield title
