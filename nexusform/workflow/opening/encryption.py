"""Which encryption a run uses: the configuration's block, with that of NF_ENCRYPTION over it."""

from __future__ import annotations

from nexusform.configuration.declared.configuration import Configuration, Encryption, Settings
from nexusform.configuration.settings_block import decode_encryption
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.encryption.backend import EncryptedBackend
from nexusform.encryption.envelope import PLAN, Sealer, sealed_as
from nexusform.encryption.keys import EncryptionProblem
from nexusform.language.parser import parse_file
from nexusform.source import SourceFile
from nexusform.state_ports import StateBackend
from nexusform.workflow.opening.place import ENCRYPTION_VARIABLE as VARIABLE
from nexusform.workflow.opening.place import Place


def encryption_of(settings: Settings | None, place: Place) -> tuple[Encryption | None, list[Diagnostic]]:
    """What the settings and the environment say together, None when neither says anything.

    NF_ENCRYPTION holds what would stand inside the block. Its key providers, methods and targets win.
    """
    configured = settings.encryption if settings else None
    strangers = _strange_vaults(configured, place) if configured else []
    if strangers:
        return None, strangers
    text = place.environment.get(VARIABLE, "")
    if not text.strip():
        return configured, []
    body, diagnostics = parse_file(SourceFile(VARIABLE, text))
    if has_errors(diagnostics):
        return None, diagnostics
    from_environment = decode_encryption(body, diagnostics)
    if has_errors(diagnostics):
        return None, diagnostics
    if configured is None:
        return from_environment, diagnostics
    merged = Encryption(
        key_providers={**configured.key_providers, **from_environment.key_providers},
        methods={**configured.methods, **from_environment.methods},
        state=from_environment.state or configured.state,
        plan=from_environment.plan or configured.plan,
        readers={**configured.readers, **from_environment.readers},
    )
    return merged, diagnostics


def _strange_vaults(encryption: Encryption, place: Place) -> list[Diagnostic]:
    """Key vaults that a confined run is not to sign in to."""
    vaults = [(block, block.settings.get("vault_uri", "")) for block in encryption.key_providers.values()]
    return [
        error("remote-address-is-not-allowed", place.refusal_of(f'The key vault "{address}"'), block.span)
        for block, address in vaults
        if address and not place.allows(address)
    ]


def encrypted(
    backend: StateBackend, settings: Settings | None, place: Place
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """The backend, seen through encryption when the state is to be encrypted."""
    encryption, diagnostics = encryption_of(settings, place)
    if has_errors(diagnostics):
        return None, diagnostics
    if encryption is None or encryption.state is None:
        return backend, diagnostics
    return EncryptedBackend(backend, Sealer(encryption, encryption.state)), diagnostics


def opened_for_reading(
    backend: StateBackend, reader: str, settings: Settings | None, place: Place
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """Another configuration's backend as the data block `reader` may open it."""
    encryption, diagnostics = encryption_of(settings, place)
    if has_errors(diagnostics):
        return None, diagnostics
    readers = encryption.readers if encryption is not None else {}
    target = readers.get(reader) or readers.get("")
    if encryption is None or target is None:
        return backend, diagnostics
    return EncryptedBackend(backend, Sealer(encryption, target)), diagnostics


def sealed_plan(
    document: bytes, configuration: Configuration | None, place: Place
) -> tuple[bytes, list[Diagnostic]]:
    """A plan file as it is written: encrypted when plans are to be."""
    sealer, diagnostics = _sealer(PLAN, configuration, place)
    if sealer is None:
        return document, diagnostics
    try:
        return sealer.seal(document, PLAN), diagnostics
    except EncryptionProblem as problem:
        return b"", [*diagnostics, error("the-plan-cannot-be-saved", str(problem))]


def opened(
    document: bytes, path: str, configuration: Configuration | None, place: Place
) -> tuple[bytes, list[Diagnostic]]:
    """A state or plan file as it was before it was encrypted."""
    purpose = sealed_as(document)
    problem = "the-plan-cannot-be-read" if purpose == PLAN else "the-state-cannot-be-read"
    sealer, diagnostics = _sealer(purpose, configuration, place)
    if has_errors(diagnostics):
        return b"", diagnostics
    if sealer is None:
        return b"", [*diagnostics, error(problem, _not_configured(f'"{path}"', purpose))]
    try:
        return sealer.open(document, purpose, f'"{path}"'), diagnostics
    except EncryptionProblem as refusal:
        return b"", [*diagnostics, error(problem, str(refusal))]


def _sealer(
    purpose: str, configuration: Configuration | None, place: Place
) -> tuple[Sealer | None, list[Diagnostic]]:
    """What seals plans or state; None where they are not encrypted."""
    settings = configuration.settings if configuration else None
    encryption, diagnostics = encryption_of(settings, place)
    if encryption is None:
        return None, diagnostics
    target = encryption.plan if purpose == PLAN else encryption.state
    return (None if target is None else Sealer(encryption, target)), diagnostics


def refusal_to_guess(name: str) -> Diagnostic:
    """An error for an encrypted state where nothing says how to open it."""
    return error("the-state-is-encrypted", _not_configured(name, "state"))


def _not_configured(name: str, what: str) -> str:
    return (
        f"{name} is encrypted, and neither the configuration nor {VARIABLE} says how. Add the `encryption` "
        f"block that it was written with, with a `{what}` block in it."
    )
