# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ARG001
"""A complete Tacker in one process, run by the python of its environment: API, conductor, SQLite.

Arguments: directory, port, NFVO address, Keystone address, then settings of [v2_vnfm] as
name=value. It prints "ready" after its start.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import webob.dec
import webob.exc  # noqa: F401 - as above
from oslo_config import cfg
from oslo_db.sqlalchemy import enginefacade  # noqa: F401 - registers the options
from oslo_log import log as logging
from tacker import policy
from tacker.common import (
    config,  # noqa: F401 - registers the options
    rpc,  # noqa: F401
)
from tacker.db import api as db_api
from tacker.sol_refactored import objects
from tacker.sol_refactored.common import config as sol_config
from tacker.sol_refactored.common import vim_utils
from tacker.sol_refactored.conductor import conductor_rpc_v2, conductor_v2
from tacker.sol_refactored.db.sqlalchemy import models
from tacker.sol_refactored.infra_drivers.openstack import (
    heat_utils,
    openstack,
    userdata_default,
    userdata_standard,
)

DIRECTORY = Path(sys.argv[1])
PORT = int(sys.argv[2])
NFVO = sys.argv[3]
KEYSTONE = sys.argv[4]


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class SilentHandler(WSGIRequestHandler):
    def log_message(self, *_arguments):
        pass


def configure():
    conf = cfg.CONF
    logging.register_options(conf)
    conf([], project="tacker", default_config_files=[])
    conf.set_override("log_file", str(DIRECTORY / "tacker.log"))
    logging.setup(conf, "tacker")
    conf.set_override("connection", f"sqlite:///{DIRECTORY / 'tacker.sqlite'}", "database")
    conf.set_override("backend_url", f"file://{DIRECTORY / 'locks'}", "coordination")
    settings = {"endpoint": f"http://127.0.0.1:{PORT}"}
    settings |= dict(argument.split("=", 1) for argument in sys.argv[5:])
    for name, value in settings.items():
        sol_config.CONF.set_override(
            name, {"true": True, "false": False}.get(value, value), "v2_vnfm"
        )
    nfvo = {
        "use_external_nfvo": True,
        "endpoint": NFVO,
        "token_endpoint": f"{NFVO}/token",
        "client_id": "tacker",
        "client_password": "secret",
        "use_client_secret_basic": True,
        "vnf_package_cache_dir": str(DIRECTORY / "packages"),
    }
    for name, value in nfvo.items():
        sol_config.CONF.set_override(name, value, "v2_nfvo")
    heat_utils.CHECK_INTERVAL = 0.2
    policy.init()
    models.model_base.BASE.metadata.create_all(db_api.get_engine())


def get_vim(*_arguments, **_names):
    """Return the VIM of every request: the fake of Keystone."""
    return objects.VimConnectionInfo.from_dict(
        {
            "vimId": "vim",
            "vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3",
            "interfaceInfo": {"endpoint": KEYSTONE},
            "accessInfo": {
                "username": "tacker",
                "password": "secret",
                "project": "nfv",
                "userDomain": "Default",
                "projectDomain": "Default",
            },
        }
    )


def make_hot(_self, request, instance, grant_request, grant, vnfd, is_rollback=False):
    """Do the same as Openstack._make_hot, without a new process for the user data."""
    parameters = request.additionalParams if request.obj_attr_is_set("additionalParams") else {}
    is_standard = parameters.get("lcm-operation-user-data-class") == "StandardUserData"
    module = userdata_standard.StandardUserData if is_standard else userdata_default.DefaultUserData
    method = grant_request.operation.lower() + ("_rollback" if is_rollback else "")
    values = (request.to_dict(), instance.to_dict(), grant_request.to_dict(), grant.to_dict())
    return {**getattr(module, method)(*values, vnfd.csar_dir), "timeout_mins": 20}


def main():
    configure()
    openstack.Openstack._make_hot = make_hot
    objects.register_all()
    vim_utils.get_default_vim = vim_utils.get_vim = get_vim
    conductor = conductor_v2.ConductorV2()

    def cast(_self, context, lcmocc_id, method):
        from tacker import context as tacker_context

        threading.Thread(
            target=getattr(conductor, method),
            args=(tacker_context.get_admin_context(),),
            kwargs={"lcmocc_id": lcmocc_id},
            daemon=True,
        ).start()

    conductor_rpc_v2.VnfLcmRpcApiV2._cast_lcm_op = cast
    # Its controllers read the settings at import.
    from tacker.sol_refactored.api import router

    instances = router.VnflcmAPIRouterV2()
    versions = router.VnflcmVersions()

    def application(environ, start_response):
        path = environ["PATH_INFO"]
        for prefix, target in (("/vnflcm/v2", instances), ("/vnflcm", versions)):
            if path.startswith(prefix + "/"):
                environ["SCRIPT_NAME"] = prefix
                environ["PATH_INFO"] = path[len(prefix) :]
                return target(environ, start_response)
        start_response("404 Not Found", [("Content-Type", "application/json")])
        return [json.dumps({"status": 404}).encode()]

    server = make_server("127.0.0.1", PORT, application, Server, SilentHandler)
    print("ready", flush=True)
    server.serve_forever()


main()
