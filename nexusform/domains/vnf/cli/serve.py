"""`nexusform serve sol003`: answers of an NFVO from a plan."""

from __future__ import annotations

import ipaddress
import signal
import ssl
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_repeatable_text,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.command_groups import LazyGroup
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_revocations_flag,
    parse_max_age,
)
from nexusform.command_entry import CommandEntry
from nexusform.diagnostics.diagnostic import Diagnostic, has_errors, select_errors
from nexusform.documents.scalars import parse_integer
from nexusform.files.external_files import PLAN_FILE, AllowedWriter, ArgumentFile, PathValueForm
from nexusform.files.regular_files import read_regular
from nexusform.files.run_log import log_event
from nexusform.plans.saved.plan_file import SavedPlan

if TYPE_CHECKING:
    from nexusform.workflow.opening.command_context import CommandContext
    from nexusform.workflow.opening.project import Project
    from nexusform.workflow.plan_files.plan_acceptance import PlanVerification

_MAX_TOKEN_BYTES: Final = 4096
_LAST_PORT: Final = 65_535


class ServeArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `serve sol003`."""

    plan: str = declare_text_flag("Answer from this saved plan", metavar="FILE", file=PLAN_FILE)
    listen: str = declare_text_flag(
        "Listen on this address", metavar="HOST:PORT", default="127.0.0.1:9990"
    )
    tls_cert: str = declare_text_flag(
        "Use this certificate (PEM)",
        metavar="FILE",
        file=ArgumentFile("certificate of `serve`", AllowedWriter.OPERATOR),
    )
    tls_key: str = declare_text_flag(
        "Use this private key (PEM)",
        metavar="FILE",
        file=ArgumentFile("private key of `serve`", AllowedWriter.OPERATOR),
    )
    token_file: str = declare_text_flag(
        "Require the token in this file",
        metavar="FILE",
        file=ArgumentFile("token of `serve`", AllowedWriter.OPERATOR),
    )
    packages: str = declare_text_flag(
        "Serve the CSAR files of DIR", metavar="DIR", file=ArgumentFile("CSAR files for `serve`")
    )
    host: tuple[str, ...] = declare_repeatable_text(
        "Accept requests to this name of the machine", metavar="NAME"
    )
    verify: tuple[str, ...] = declare_repeatable_text(
        "Reject a plan without this signature",
        metavar="key:FILE",
        file=ArgumentFile("public key of signers", AllowedWriter.OPERATOR, PathValueForm.KEY),
    )
    max_age: str = declare_text_flag("Reject a plan older than this", metavar="DURATION")
    revocations: tuple[str, ...] = declare_revocations_flag()
    allow_unchecked_site: bool = declare_switch_flag("Grant if the site cannot be read again")
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("sol003", ServeArguments)
def serve_sol003(arguments: ServeArguments) -> int:
    """Decide grant requests of a VNFM (ETSI SOL003) from a saved plan.

    A request of the plan is granted with the zone of each VNFC; any other is rejected with the
    reason. Granted requests are written to FILE.grants before the answer, so a restart gives the
    same answers. Several servers of one plan never grant an operation twice. Requests need the
    token in -token-file, else the printed one. At start, the plan is checked as by apply:
    signature, withdrawals, place and age. Run it in the directory of the plan. Without a
    certificate and a token only loopback addresses are allowed. SIGTERM and Ctrl-C end the server.
    """
    from nexusform.domains.vnf.serving.grant_decisions import list_planned_grants
    from nexusform.domains.vnf.serving.grant_server import GrantJournal, GrantServer, list_packages
    from nexusform.workflow.opening.system_io import ConfinedFileAccess
    from nexusform.workflow.plan_files.saved_plans import open_saved_plan, read_plan

    verification = _build_verification(arguments)
    host, port = _parse_address(arguments.listen)
    context = create_context(allow_unchecked_site=arguments.allow_unchecked_site)
    token = _read_token(arguments.token_file)
    tls = _build_tls_context(arguments)
    if not arguments.plan:
        raise click.UsageError("-plan: name a saved plan, for example -plan=p.nfplan.")
    if not (tls and token) and not ipaddress.ip_address(host).is_loopback:
        raise click.UsageError(
            "-listen: other than loopback addresses need -tls-cert, -tls-key and -token-file."
        )
    screen = arguments.view.create_screen()
    saved, diagnostics = read_plan(arguments.plan, context)
    if saved is not None:
        diagnostics += _check_acceptance(saved, arguments.plan, verification, context)
    project = None
    if saved is not None and not has_errors(diagnostics):
        opened = open_saved_plan(context, saved, is_verified=bool(verification.key_files))
        project = opened.project
        diagnostics += opened.diagnostics
    screen.print_diagnostics(tuple(diagnostics), sources={})
    if saved is None or project is None or has_errors(diagnostics):
        # The reason is printed.
        return 1
    planned = list_planned_grants(saved.plan)
    files = ConfinedFileAccess(context.confinement.get_operator_confinement(arguments.packages))
    try:
        packages, problems = (
            list_packages(arguments.packages, files) if arguments.packages else ({}, [])
        )  # by id
        journal = GrantJournal(arguments.plan, saved.digest)
        # An unreadable journal is reported at the start.
        journal.read_records()
        find_obstacle = partial(_find_obstacle, project, saved)
        server = GrantServer(
            (host, port), planned, journal, packages, token, tls, arguments.host, find_obstacle
        )
    except OSError as problem:
        # Of the folder, of FILE.grants or of the address.
        screen.print_error(f"Error: {problem.filename or arguments.listen}: {problem.strerror}.")
        return 1
    # The call of `shutdown` waits for `serve_forever`, so it runs in a thread of its own.
    stop = lambda *_: Thread(target=server.shutdown, daemon=True).start()  # noqa: E731
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    for text in problems:
        screen.print_error(f"Warning: package left out: {text}")
    obstacle = find_obstacle()
    if obstacle:
        screen.print_error(f"Warning: nothing is granted until this ends: {obstacle}")
    operations = (
        ", ".join(f"{grant.operation} {grant.address}" for grant in planned.grants) or "none"
    )
    screen.print_text(
        f"Listening on {server.url}\nOperations in the plan: {operations}\nPackages: "
        f"{len(packages)}"
    )
    if not token:
        screen.print_text(f"Token until this server ends: {server.token}")
    with server:
        server.serve_forever()
    screen.print_text("Ended.")
    return 0


def _parse_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT, with an IPv4 address or localhost.

    Raises UsageError.
    """
    host, _, port = text.rpartition(":")
    host = {"localhost": "127.0.0.1"}.get(host, host.strip("[]"))
    number = parse_integer(port)
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        number = None
    if number is None or number > _LAST_PORT:
        raise click.UsageError(
            f'-listen: "{text}" is not an IPv4 address and port, such as 127.0.0.1:9990.'
        )
    return host, number


def _check_acceptance(
    saved: SavedPlan, path: str, verification: PlanVerification, context: CommandContext
) -> list[Diagnostic]:
    """Return errors for a plan that `apply` does not accept here."""
    from nexusform.workflow.opening.command_context import load_project_configuration
    from nexusform.workflow.opening.project import open_backend
    from nexusform.workflow.plan_files.plan_acceptance import (
        build_plan_identity,
        check_plan_acceptance,
        check_plan_signatures,
    )
    from nexusform.workflow.plan_files.saved_plans import check_failed_plan
    from nexusform.workflow.runs.evaluation_record import find_backend_origin

    problems = check_failed_plan(saved, path)
    problems += check_plan_signatures(saved, path, verification.key_files, context.confinement)
    if has_errors(problems):
        return problems
    configuration, _ = load_project_configuration(context)
    backend, backend_problems = open_backend(context, configuration)
    if backend is None:
        return [*problems, *backend_problems]
    find_current = partial(find_backend_origin, context, configuration, backend)
    identity = build_plan_identity(saved.plan, saved.digest)
    return [*problems, *check_plan_acceptance(identity, verification, context, find_current)]


def _find_obstacle(project: Project, saved: SavedPlan) -> str:
    """Return why no step of a plan may run on the site as it is now, "" if one may."""
    from nexusform.workflow.plan_files.approval_checks import check_saved_plan_beside_apply

    problems = check_saved_plan_beside_apply(project, saved)
    for problem in problems:
        log_event("info", "check of the site", id=problem.id, detail=problem.detail)
    return " ".join(problem.detail for problem in select_errors(problems))


def _build_verification(arguments: ServeArguments) -> PlanVerification:
    """Build the required checks of the plan.

    Raises UsageError.
    """
    from nexusform.workflow.plan_files.plan_acceptance import PlanVerification

    key_files = _parse_key_files(arguments.verify)
    if arguments.revocations and not key_files:
        raise click.UsageError("-revocations needs -verify=key:FILE, the key that signed the file.")
    return PlanVerification(
        key_files=tuple(key_files),
        max_age=parse_max_age(arguments.max_age),
        revocation_files=arguments.revocations,
    )


def _parse_key_files(values: Sequence[str]) -> list[str]:
    """Return the key files of -verify=key:FILE.

    Raises UsageError.
    """
    key_files: list[str] = []
    for text in values:
        kind, _, path = text.partition(":")
        if kind != "key" or not path:
            raise click.UsageError(
                f'-verify: invalid value "{text}". Use -verify=key:FILE. A server does not plan '
                "again."
            )
        key_files.append(path)
    return key_files


def _read_token(path: str) -> str:
    """Read the token in a file, "" without a path.

    Raises UsageError.
    """
    if not path:
        return ""
    try:
        token = read_regular(Path(path), _MAX_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise click.UsageError(f"-token-file: {problem}") from None
    if not token:
        raise click.UsageError("-token-file: the file is empty.")
    return token


def _build_tls_context(arguments: ServeArguments) -> ssl.SSLContext | None:
    """Build the TLS settings of the server; None without a certificate and a key.

    Raises UsageError.
    """
    if not arguments.tls_cert and not arguments.tls_key:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(arguments.tls_cert, arguments.tls_key or None)
    except (OSError, ssl.SSLError) as problem:
        raise click.UsageError(f"-tls-cert, -tls-key: {problem}") from None
    return context


_SOL003: Final = CommandEntry("Answer grant requests of a VNFM", load=lambda: serve_sol003)
serve = LazyGroup("serve", {"sol003": _SOL003}, summary="Answer requests from a plan")
