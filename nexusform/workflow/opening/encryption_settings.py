"""Encryption settings of a run: the configuration block, overridden by NF_ENCRYPTION."""

from nexusform.configuration.declarations.configuration import Configuration, Encryption, Settings
from nexusform.configuration.settings_block import decode_encryption_block
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors
from nexusform.encryption.document_cipher import (
    PLAN,
    DocumentCipher,
    EncryptedBackend,
    read_encryption_purpose,
)
from nexusform.encryption.key_providers import EncryptionProblem
from nexusform.interfaces.state_storage import StateBackend
from nexusform.language.parser import parse_file
from nexusform.workflow.opening.command_context import ENCRYPTION_VARIABLE as VARIABLE
from nexusform.workflow.opening.command_context import CommandContext


def merge_encryption(
    settings: Settings, context: CommandContext
) -> tuple[Encryption | None, list[Diagnostic]]:
    """Merge the `encryption` block of the settings with the one in NF_ENCRYPTION.

    The key providers, methods and targets of the environment win. Return None without either, or
    with errors. A key vault in the configuration, if it is not allowed, is an error.
    """
    configured = settings.encryption
    vault_errors = _check_key_vaults(configured, context) if configured else []
    if vault_errors:
        return None, vault_errors
    text = context.environment.get(VARIABLE, "")
    if not text.strip():
        return configured, []
    body, diagnostics = parse_file(SourceFile(VARIABLE, text))
    if has_errors(diagnostics):
        return None, diagnostics
    from_environment = decode_encryption_block(body, diagnostics)
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


def _check_key_vaults(encryption: Encryption, context: CommandContext) -> list[Diagnostic]:
    """Return errors for key vaults outside of -allow-remote in a sandboxed run."""
    vaults = [
        (block, block.settings.get("vault_uri", "")) for block in encryption.key_providers.values()
    ]
    return [
        build_error(
            "remote-address-not-allowed",
            context.explain_rejection(f'The key vault "{address}"'),
            block.span,
        )
        for block, address in vaults
        if address and not context.is_allowed(address)
    ]


def wrap_backend(
    backend: StateBackend, settings: Settings, context: CommandContext
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """Return the backend with encryption, or unchanged if states are not encrypted.

    Return None with errors.
    """
    encryption, diagnostics = merge_encryption(settings, context)
    if has_errors(diagnostics):
        return None, diagnostics
    if encryption is None or encryption.state is None:
        return backend, diagnostics
    return EncryptedBackend(backend, DocumentCipher(encryption, encryption.state)), diagnostics


def wrap_remote_backend(
    backend: StateBackend, reader: str, settings: Settings, context: CommandContext
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """Add decryption to the backend of another configuration, read by the data block `reader`.

    Return None with errors.
    """
    encryption, diagnostics = merge_encryption(settings, context)
    if has_errors(diagnostics):
        return None, diagnostics
    readers = encryption.readers if encryption is not None else {}
    # "" is the `default` block.
    target = readers.get(reader) or readers.get("")
    # A read of an encrypted state then fails.
    if encryption is None or target is None:
        return backend, diagnostics
    return EncryptedBackend(backend, DocumentCipher(encryption, target)), diagnostics


def encrypt_plan(
    document: bytes, configuration: Configuration, context: CommandContext
) -> tuple[bytes, list[Diagnostic]]:
    """Return the plan file, encrypted if plans are encrypted.

    With errors the result must not be written.
    """
    cipher, diagnostics = _create_document_cipher(PLAN, configuration, context)
    if cipher is None:
        return document, diagnostics
    try:
        return cipher.encrypt(document, PLAN), diagnostics
    except EncryptionProblem as problem:
        return b"", [*diagnostics, build_error("plan-save-failed", str(problem))]


def decrypt_file(
    document: bytes, path: str, configuration: Configuration, context: CommandContext
) -> tuple[bytes, list[Diagnostic]]:
    """Decrypt an encrypted state or plan file; b"" with errors."""
    purpose = read_encryption_purpose(document)
    error_id = "unreadable-plan" if purpose == PLAN else "unreadable-state"
    cipher, diagnostics = _create_document_cipher(purpose, configuration, context)
    if has_errors(diagnostics):
        return b"", diagnostics
    if cipher is None:
        return b"", [
            *diagnostics,
            build_error(error_id, format_missing_settings(f'"{path}"', purpose)),
        ]
    try:
        return cipher.decrypt(document, purpose, f'"{path}"'), diagnostics
    except EncryptionProblem as failure:
        return b"", [*diagnostics, build_error(error_id, str(failure))]


def _create_document_cipher(
    purpose: str, configuration: Configuration, context: CommandContext
) -> tuple[DocumentCipher | None, list[Diagnostic]]:
    """Create the cipher of plans (purpose PLAN) or state.

    Return None if they are not encrypted, or with errors.
    """
    encryption, diagnostics = merge_encryption(configuration.settings, context)
    if encryption is None:
        return None, diagnostics
    target = encryption.plan if purpose == PLAN else encryption.state
    return (None if target is None else DocumentCipher(encryption, target)), diagnostics


def format_missing_settings(name: str, block_name: str) -> str:
    """Format the error for an encrypted file without encryption settings.

    `block_name` is `state` or `plan`.
    """
    return (
        f"{name} is encrypted, but neither the configuration nor {VARIABLE} has encryption "
        f"settings. Add the `encryption` block of the run that wrote it, with a `{block_name}` "
        "block."
    )
