"""Pods for each rule of Pod Security: a safe pod, and the same with one field changed.

They are generated from one table, so each rule meets allowed and forbidden values in the pod and in
each kind of container.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from nexusform.domains.pods.importers.pod_security import find_pod_security_rejection

Body = dict[str, Any]
ENFORCE = "pod-security.kubernetes.io/enforce"
BASELINE = "baseline"
RESTRICTED = "restricted"
_CONTEXT: Body = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}

# Changes of the security context of a container: the field, a value, and the levels that reject it.
_CONTAINER_CONTEXTS: tuple[tuple[str, Any, set[str]], ...] = (
    ("privileged", True, {BASELINE, RESTRICTED}),
    ("privileged", False, set()),
    ("allowPrivilegeEscalation", True, {RESTRICTED}),
    ("allowPrivilegeEscalation", None, {RESTRICTED}),
    ("capabilities", None, {RESTRICTED}),
    ("capabilities", {"drop": ["NET_RAW"]}, {RESTRICTED}),
    ("capabilities", {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}, set()),
    ("capabilities", {"drop": ["ALL"], "add": ["CHOWN"]}, {RESTRICTED}),
    ("capabilities", {"drop": ["ALL"], "add": ["NET_ADMIN"]}, {BASELINE, RESTRICTED}),
    ("runAsNonRoot", False, {RESTRICTED}),
    ("runAsNonRoot", None, {RESTRICTED}),
    ("runAsUser", 0, {RESTRICTED}),
    ("runAsUser", 1000, set()),
    ("seccompProfile", None, {RESTRICTED}),
    ("seccompProfile", {"type": "Unconfined"}, {BASELINE, RESTRICTED}),
    ("seccompProfile", {"type": "Localhost", "localhostProfile": "p"}, set()),
    ("appArmorProfile", {"type": "Unconfined"}, {BASELINE, RESTRICTED}),
    ("appArmorProfile", {"type": "RuntimeDefault"}, set()),
    ("seLinuxOptions", {"type": "spc_t"}, {BASELINE, RESTRICTED}),
    ("seLinuxOptions", {"type": "container_t"}, set()),
    ("seLinuxOptions", {"user": "root"}, {BASELINE, RESTRICTED}),
    ("seLinuxOptions", {"role": "sysadm_r", "user": "u", "type": "t"}, {BASELINE, RESTRICTED}),
    ("windowsOptions", {"runAsUserName": "a"}, set()),
    ("procMount", "Unmasked", {BASELINE, RESTRICTED}),
    ("procMount", "Default", set()),
)
# The same for the security context of the pod.
_POD_CONTEXTS: tuple[tuple[str, Any, set[str]], ...] = (
    ("runAsNonRoot", False, {RESTRICTED}),
    ("runAsUser", 0, {RESTRICTED}),
    ("seccompProfile", {"type": "Unconfined"}, {BASELINE, RESTRICTED}),
    ("appArmorProfile", {"type": "Unconfined"}, {BASELINE, RESTRICTED}),
    ("appArmorProfile", {"type": "Localhost", "localhostProfile": "p"}, set()),
    ("seLinuxOptions", {"type": "container_init_t"}, set()),
    ("seLinuxOptions", {"role": "r"}, {BASELINE, RESTRICTED}),
    ("sysctls", [{"name": "kernel.shm_rmid_forced", "value": "0"}], set()),
    ("sysctls", [{"name": "net.ipv4.tcp_rmem", "value": "1"}], set()),
    ("sysctls", [{"name": "kernel.msgmax", "value": "1"}], {BASELINE, RESTRICTED}),
)
_PROBE: Body = {"httpGet": {"port": 80, "host": "10.0.0.1"}}
# Changes of a container.
_CONTAINERS: tuple[tuple[str, Any, set[str]], ...] = (
    ("ports", [{"containerPort": 80, "hostPort": 8080}], {BASELINE, RESTRICTED}),
    ("ports", [{"containerPort": 80}], set()),
    ("livenessProbe", _PROBE, {BASELINE, RESTRICTED}),
    ("livenessProbe", {"httpGet": {"port": 80}}, set()),
    ("readinessProbe", {"tcpSocket": {"port": 80, "host": "h"}}, {BASELINE, RESTRICTED}),
    ("startupProbe", _PROBE, {BASELINE, RESTRICTED}),
    ("lifecycle", {"preStop": _PROBE}, {BASELINE, RESTRICTED}),
    ("lifecycle", {"postStart": _PROBE}, {BASELINE, RESTRICTED}),
)
# Changes of the spec of a pod.
_SPECS: tuple[tuple[str, Any, set[str]], ...] = (
    ("hostNetwork", True, {BASELINE, RESTRICTED}),
    ("hostPID", True, {BASELINE, RESTRICTED}),
    ("hostIPC", True, {BASELINE, RESTRICTED}),
    ("hostNetwork", False, set()),
    ("volumes", [{"name": "v", "hostPath": {"path": "/"}}], {BASELINE, RESTRICTED}),
    ("volumes", [{"name": "v", "nfs": {"server": "s", "path": "/"}}], {RESTRICTED}),
    ("volumes", [{"name": "v", "iscsi": {"targetPortal": "1.2.3.4:3260", "iqn":
                  "iqn.2001-04.com.example:a", "lun": 0}}], {RESTRICTED}),
    ("volumes", [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "c"}}], set()),
    ("volumes", [{"name": "v"}], set()),
    ("volumes", [{"name": "v", "image": {"reference": "i"}}], set()),
)  # fmt: skip
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/c"
_ANNOTATIONS: tuple[tuple[str, str, set[str]], ...] = (
    (_APPARMOR, "unconfined", {BASELINE, RESTRICTED}),
    (_APPARMOR, "runtime/default", set()),
    (_APPARMOR, "localhost/p", set()),
    ("example.com/other", "unconfined", set()),
)


def build_safe_pod(name: str) -> Body:
    """Return a pod that every level accepts."""
    container = {"name": "c", "image": "i", "securityContext": deepcopy(_CONTEXT)}
    spec: Body = {"containers": [container]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {}},
        "spec": spec,
    }


def list_security_pods() -> Iterator[tuple[Body, set[str]]]:
    """Yield pods, each with the levels that reject it in the newest policy."""
    yield build_safe_pod("safe"), set()
    names = (f"p{number}" for number in range(1000))
    for section in ("containers", "initContainers"):
        for field, value, levels in _CONTAINER_CONTEXTS:
            pod = build_safe_pod(next(names))
            _set_field(_add_container(pod, section)["securityContext"], field, value)
            yield pod, levels
        for field, value, levels in _CONTAINERS:
            # Only init containers that restart have probes.
            if section == "containers" or field == "ports":
                pod = build_safe_pod(next(names))
                _set_field(_add_container(pod, section), field, value)
                yield pod, levels
    for field, value, levels in _POD_CONTEXTS:
        pod = build_safe_pod(next(names))
        _set_field(pod["spec"].setdefault("securityContext", {}), field, value)
        yield pod, levels
    for field, value, levels in _SPECS:
        pod = build_safe_pod(next(names))
        pod["spec"][field] = value
        yield pod, levels
    for key, text, levels in _ANNOTATIONS:
        pod = build_safe_pod(next(names))
        pod["metadata"]["annotations"][key] = text
        yield pod, levels
    yield from _list_exempt_pods()


def _list_exempt_pods() -> Iterator[tuple[Body, set[str]]]:
    """Yield Windows pods, pods in a user namespace, and pods with values of the whole pod."""
    pod = build_safe_pod("windows")
    pod["spec"] |= {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}}
    pod["spec"]["containers"][0].pop("securityContext")
    yield pod, set()
    pod = build_safe_pod("host-process")
    options = {"hostProcess": True}
    pod["spec"] |= {"hostNetwork": True, "securityContext": {"windowsOptions": options}}
    yield pod, {BASELINE, RESTRICTED}
    for name, context, levels in (
        ("user-namespace-root", {"runAsUser": 0, "runAsNonRoot": False}, set[str]()),
        ("user-namespace-proc", {"procMount": "Unmasked"}, {RESTRICTED}),
    ):
        pod = build_safe_pod(name)
        pod["spec"]["hostUsers"] = False
        pod["spec"]["containers"][0]["securityContext"] |= context
        yield pod, levels
    pod = build_safe_pod("whole-pod")
    pod["spec"]["securityContext"] = {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    for field in ("runAsNonRoot", "seccompProfile"):
        pod["spec"]["containers"][0]["securityContext"].pop(field)
    yield pod, set()


def _add_container(pod: Body, section: str) -> Body:
    """Return the container to change: the first one, or a new init container."""
    if section == "initContainers":
        context = deepcopy(_CONTEXT)
        pod["spec"][section] = [{"name": "init", "image": "i", "securityContext": context}]
    container: Body = pod["spec"][section][0]
    return container


def _set_field(fields: Body, name: str, value: Any) -> None:
    if value is None:
        fields.pop(name, None)
    else:
        fields[name] = value


def build_labels(level: str, version: str = "") -> Mapping[str, str]:
    """Return the labels of a namespace with a Pod Security level."""
    return {ENFORCE: level, **({f"{ENFORCE}-version": version} if version else {})}


def find_rejection(
    pod: Body, level: str, version: str = "", cluster_version: tuple[int, ...] = ()
) -> str:
    """Return why the Pod Security level of a namespace rejects a pod; "" if it does not."""
    annotations = pod["metadata"]["annotations"]
    labels = build_labels(level, version)
    return find_pod_security_rejection(labels, annotations, pod["spec"], cluster_version)
