"""Files of `openstack ... -f json`: compute hosts, flavors, servers and server groups."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.openstack.importers.capture_script import COMMANDS, INVENTORY
from nexusform.domains.openstack.importers.flavors_and_images import (
    index_image_limits,
    index_images,
    read_flavor,
)
from nexusform.domains.openstack.importers.nova_hosts import add_hosts
from nexusform.domains.openstack.importers.nova_servers import iterate_servers
from nexusform.domains.openstack.importers.openstack_fields import MISSING_COLUMN
from nexusform.domains.openstack.importers.openstack_reading import (
    OpenstackReading,
    build_facts,
    build_problem,
    build_warning,
)
from nexusform.domains.openstack.importers.openstack_tables import (
    DuplicateRowError,
    Tables,
    check_duplicate_rows,
    index_resource_providers,
    parse_table,
    split_names,
)
from nexusform.domains.openstack.importers.unknown_parts import add_all_unknown_parts
from nexusform.domains.openstack.importers.usage_without_server import add_usage_without_server
from nexusform.domains.openstack.scheduling.nova_host_records import DISK, MEMORY, PCPU, VCPU


def parse_openstack_files(contents: Mapping[str, bytes]) -> OpenstackReading:
    """Parse the files of a directory by name without suffix.

    If one is missing or no table, return only problems.
    """
    reading = OpenstackReading()
    tables = {name: parse_table(name, text, reading) for name, text in contents.items()}
    required = ("hypervisors", "compute_services", "servers", "flavors", "resource_providers")
    missing = [name for name in required if name not in tables]
    if missing:
        commands = "; ".join(f"{name}.json: openstack {COMMANDS[name]} -f json" for name in missing)
        reading.problems.append(build_problem(f"Files are missing. {commands}."))
    if reading.problems:
        return reading
    columns = dict.fromkeys(
        f"{fact.field} ({fact.file})" for fact in reading.unread if fact.reason == MISSING_COLUMN
    )
    if columns:
        detail = (
            "Columns are missing, and their values are unknown: "
            f"{format_first_items(list(columns), 4)}. Capture the files again with the script of "
            "`nexusform inventory script -for=openstack`."
        )
        reading.problems.append(build_warning(detail))
    try:
        _fill_from_tables(reading, tables)
    except DuplicateRowError as problem:
        reading.problems.append(build_problem(f"{problem}. Capture the files again."))
    except (LookupError, AttributeError, TypeError, ValueError, OverflowError) as problem:
        reason = f"A column is missing or has an unexpected value: {problem}"
        # A value of a wrong kind, with its position.
        wrong = next(
            (fact for fact in reading.unread if fact.reason not in ("", MISSING_COLUMN)), None
        )
        if wrong is not None:
            reason = f"{wrong.position}: {wrong.cause}"
        reading.problems.append(build_problem(f"{reason}. Capture the files again."))
    return reading


def _fill_from_tables(reading: OpenstackReading, tables: Tables) -> None:
    """Fill `reading` from tables; report hosts left out.

    Raises LookupError, AttributeError, TypeError, ValueError.
    """
    for name, rows in tables.items():
        check_duplicate_rows(name, rows)
    reading.flavors = {str(row["name"]): read_flavor(row) for row in tables["flavors"]}
    reading.images = index_images(tables)
    reading.image_limits = index_image_limits(tables)
    reading.server_groups = _index_server_groups(tables)
    add_hosts(reading, tables)
    add_all_unknown_parts(reading, tables)
    reading.other_resource_classes = _list_other_classes(reading, tables)
    reading.servers = dict(iterate_servers(tables, reading))
    add_usage_without_server(reading, tables)


def _index_server_groups(tables: Tables) -> dict[str, dict[str, Any]]:
    """Return the policy and the members of each server group by name.

    Groups of several projects may have one name: then the id is added.
    """
    rows = tables.get("server_groups", [])
    names_and_ids = {(str(row["name"]), str(row.get("id"))) for row in rows}
    numbers_by_name = Counter(name for name, _ in names_and_ids)
    groups = {}
    for row in rows:
        name = str(row["name"])
        key = f"{name} ({row.get('id')})" if numbers_by_name[name] > 1 else name
        # Clients name the column differently.
        policies = split_names(row.get("policy") or row.get("policies"))
        members = sorted(split_names(row.get("members")))
        groups[key] = {"policy": next(iter(policies), ""), "members": members}
    return groups


def _list_other_classes(reading: OpenstackReading, tables: Tables) -> list[str]:
    """List the resource classes of resource providers that are no hypervisors.

    They are nested or shared. Add an unread fact for one with the resources of every server.
    """
    providers = index_resource_providers(tables)
    hypervisors = {str(row["hypervisor_hostname"]) for row in tables["hypervisors"]}
    classes: set[str] = set()
    for name in sorted(providers.keys() - hypervisors):
        file = f"{INVENTORY}-{providers[name]}"
        offered = {str(row["resource_class"]) for row in tables.get(file, [])}
        classes |= offered
        shared = sorted(offered & {VCPU, PCPU, MEMORY, DISK})
        if shared:
            reason = "no hypervisor has its name: hosts may share it"
            reading.unread += build_facts(("resource provider", name), shared[0], file, reason)
    return sorted(classes)
