"""`nexusform modules` and `nexusform modules mirror DIR`."""

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_positionals, declare_switch_flag
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import ViewFlags, create_context
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.diagnostics.phrases import format_count
from nexusform.files.external_files import AllowedWriter, ArgumentFile
from nexusform.workflow.module_packages.module_listing import (
    ListedModule,
    list_project_modules,
    mirror_modules,
)


class ModulesArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `modules`."""

    words: tuple[str, ...] = declare_positionals(
        metavar="[mirror DIR]", file=ArgumentFile("modules", AllowedWriter.COMMAND)
    )
    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("modules", ModulesArguments)
def modules(arguments: ModulesArguments) -> int:
    """List the modules with their sources and versions.

    `modules mirror DIR` copies the downloaded ones to DIR, for `init -from-mirror=DIR`.
    """
    words = arguments.words
    if words and (words[0] != "mirror" or len(words) != 2 or arguments.as_json):
        raise click.UsageError("Write `modules`, `modules -json` or `modules mirror DIR`.")
    context = create_context()
    screen = arguments.view.create_screen(is_aside=arguments.as_json)
    count, listing = (
        mirror_modules(context, words[1]) if words else (0, list_project_modules(context))
    )
    screen.print_diagnostics(listing.diagnostics, listing.sources)
    if has_errors(listing.diagnostics):
        return 1
    if words:
        screen.print_text(f"{format_count(count, 'new package')} in {words[1]}.")
    elif arguments.as_json:
        from nexusform.rendering.notation.json_values import encode_document

        sys.stdout.write(encode_document(_build_document(listing.modules), pretty=True).decode())
    elif not listing.modules:
        screen.print_text("The configuration calls no modules.")
    else:
        screen.print_text("Modules declared by configuration:\n.")
        for line in _render_tree(listing.modules):
            screen.print_text(line)
    return 0


def _build_document(listed_modules: Sequence[ListedModule]) -> dict[str, object]:
    """Build the document of `terraform modules -json`, with what the lock file selects."""
    entries: list[dict[str, str]] = []
    for module in listed_modules:
        locked = module.locked
        entries.append(
            {
                "key": module.call,
                "source": module.source,
                "version": locked.version if locked else "",
                "commit": locked.commit if locked else "",
                "hash": locked.hash if locked else "",
                "directory": module.directory,
            }
        )
    return {"format_version": "1.0", "modules": entries}


def _render_tree(listed_modules: Sequence[ListedModule]) -> Iterator[str]:
    """Yield the lines of the tree that Terraform prints."""
    children: dict[str, list[ListedModule]] = defaultdict(list)
    for module in listed_modules:
        children[module.call.rpartition(".")[0]].append(module)

    def render_children(parent: str, indent: str) -> Iterator[str]:
        for module in children[parent]:
            is_last = module is children[parent][-1]
            yield f"{indent}{'└── ' if is_last else '├── '}{_describe_module(module)}"
            yield from render_children(module.call, f"{indent}{'    ' if is_last else '│   '}")

    yield from render_children("", "")


def _describe_module(module: ListedModule) -> str:
    text = f'"{module.call.rpartition(".")[2]}"[{module.source}]'
    if module.locked is None:
        return text
    if module.locked.version:
        text += f" {module.locked.version}"
    if module.constraints:
        text += f" ({module.constraints})"
    if module.locked.commit:
        text += f" commit {module.locked.commit[:10]}"
    return text
