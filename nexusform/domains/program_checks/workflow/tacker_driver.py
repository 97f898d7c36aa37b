"""Driver of Tacker: makes the stacks of VNF packages with Tacker's own user data.

It runs in an environment of its own: `pip install tacker==16.0.0`. Each line of the input file is
{package, request}: the directory of a package, and the instantiate request (ETSI SOL003). Each line
of the output is {template, files, parameters}, {problem} or {unknown}; the first one has the
version. Tacker's reader of VNFDs counts the VMs, and its user data makes the stack. Code of a
package is not run: only user data of Tacker itself, which a script of a package imports.
"""

import ast
import json
import logging
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from oslo_config import cfg
from tacker.sol_refactored import objects
from tacker.sol_refactored.common import vnfd_utils
from tacker.sol_refactored.conductor.vnflcm_driver_v2 import VnfLcmDriverV2
from tacker.sol_refactored.infra_drivers.openstack.openstack import Openstack
from tacker.sol_refactored.objects.v2 import fields

ID = "00000000-0000-4000-8000-000000000000"
SCRIPT = "lcm-operation-user-data"


def make_stack(package: Path, body: dict[str, Any]) -> dict[str, Any]:
    """Return the stack that Tacker creates for an instantiate request."""
    script = body.get("additionalParams", {}).get(SCRIPT)
    if script is not None and not is_code_of_tacker(package, str(script)):
        return {"unknown": "the user data is code of the package, which is not run"}
    descriptor = vnfd_utils.Vnfd(ID)
    descriptor.init_from_csar_dir(str(package))
    request = objects.InstantiateVnfRequest.from_dict(body)
    instance = objects.VnfInstanceV2(id=ID, vnfdId=ID)
    grant_request = objects.GrantRequestV1(
        vnfInstanceId=ID,
        vnfLcmOpOccId=ID,
        vnfdId=ID,
        operation=fields.LcmOperationType.INSTANTIATE,
        isAutomaticInvocation=False,
    )
    # Its constructor starts a client of the NFVO.
    driver = VnfLcmDriverV2.__new__(VnfLcmDriverV2)
    driver.instantiate_grant(grant_request, request, instance, descriptor)
    grant = objects.GrantV1(id=ID, vnfInstanceId=ID, vnfLcmOpOccId=ID)
    stack = Openstack()._make_hot(request, instance, grant_request, grant, descriptor)  # noqa: SLF001 - as instantiate()
    return {name: stack[name] for name in ("template", "files", "parameters")}


def is_code_of_tacker(package: Path, script: str) -> bool:
    """Return whether a script has only names of Tacker's modules, and no code of its own."""
    root = package.resolve()
    path = root.joinpath(script).resolve()
    if not path.is_relative_to(root) or not path.is_file():
        return False
    return all(map(is_name_of_tacker, ast.parse(path.read_text()).body))


def is_name_of_tacker(statement: ast.stmt) -> bool:
    """Return whether a statement imports from Tacker, renames, or derives an empty class."""
    match statement:
        case ast.ImportFrom(module=str(module), level=0):
            return module.startswith("tacker.")
        case ast.Import(names=names):
            return all(name.name.startswith("tacker.") for name in names)
        case ast.Assign(value=ast.Attribute() | ast.Name()) | ast.Pass():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.ClassDef(decorator_list=[], keywords=[], bases=bases, body=body):
            are_names = all(isinstance(base, ast.Attribute | ast.Name) for base in bases)
            return are_names and all(map(is_name_of_tacker, body))
    return False


def make_stacks() -> None:
    """Make the stacks of the packages in the first argument; write them to the second one."""
    logging.disable()
    cfg.CONF([], project="tacker", default_config_files=[])
    objects.register_all()
    with Path(sys.argv[1]).open() as source, Path(sys.argv[2]).open("w") as answers:
        answers.write(json.dumps({"tacker": version("tacker")}) + "\n")
        for line in source:
            document = json.loads(line)
            try:
                answer = make_stack(Path(document["package"]), document["request"])
            except Exception as problem:  # noqa: BLE001 - any error of Tacker refuses the request
                answer = {"problem": f"{type(problem).__name__}: {problem}"}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    make_stacks()
