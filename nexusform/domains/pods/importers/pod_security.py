"""Pod Security admission: whether a namespace's level rejects a pod, and by which rules.

The table of rules follows policy/check_*.go of k8s.io/pod-security-admission, with its words. A
rule may change with the version of the policy. Exemptions and defaults of an API server are not
in the labels of a namespace, so they are not known.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose
from nexusform.domains.pods.importers.manifest_parser import get_integer
from nexusform.json_data.plain_data import get_list, get_mapping, get_text, list_mappings

PLUGIN: Final = "PodSecurity"
_LABEL: Final = "pod-security.kubernetes.io/enforce"
_PRIVILEGED: Final = "privileged"
_BASELINE: Final = "baseline"
_RESTRICTED: Final = "restricted"
_LATEST: Final = "latest"
_NEWEST_MINOR: Final = 37
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]*)\Z")
_CONTAINER_SECTIONS: Final = ("initContainers", "containers", "ephemeralContainers")

_CAPABILITIES: Final = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
        "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
_SELINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
    }
)  # fmt: skip
_SYSCTLS_27: Final = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29: Final = _SYSCTLS_27 | {
    f"net.ipv4.tcp_{name}"
    for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}
_SYSCTLS_32: Final = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SYSCTLS_37: Final = _SYSCTLS_32 | {
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_notsent_lowat",
}
_VOLUME_SOURCES: Final = frozenset(
    {
        "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image",
        "persistentVolumeClaim", "projected", "secret",
    }
)  # fmt: skip
_PROFILE_TYPES: Final = ("RuntimeDefault", "Localhost")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS: Final = ("postStart", "preStop")
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_CONTAINER_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"

_Object = Mapping[str, Any]


class PodContent(Struct, frozen=True):
    """Annotations and spec of a pod as plain data."""

    annotations: Mapping[str, Any]
    spec: _Object

    @property
    def containers(self) -> list[tuple[str, _Object]]:
        """All containers in the order of Kubernetes, each with its name."""
        return [
            (get_text(container, "name"), container)
            for section in _CONTAINER_SECTIONS
            for container in list_mappings(self.spec, section)
        ]

    @property
    def container_contexts(self) -> list[tuple[str, _Object]]:
        """The security context of each container, with the name of the container."""
        return [(name, get_mapping(item, "securityContext")) for name, item in self.containers]

    @property
    def context(self) -> _Object:
        """The security context of the pod."""
        return get_mapping(self.spec, "securityContext")


class PolicyViolation(Struct, frozen=True):
    """Reason of a rejection, and the parts of the pod that cause it."""

    reason: str
    detail: str


# Returns None for a pod within the rule.
_Check = Callable[[PodContent], PolicyViolation | None]


class VersionedCheck(Struct, frozen=True):
    """Check of a rule from a minor version of the policy on.

    It may exempt Windows pods, and pods in a user namespace.
    """

    minor: int
    check: _Check
    exempts_windows: bool = False
    exempts_user_namespaces: bool = False

    def find_violation(self, pod: PodContent) -> PolicyViolation | None:
        """Return the violation of a pod, None if it is within the rule or exempt."""
        is_windows = get_text(pod.spec, "os", "name") == "windows"
        has_user_namespace = pod.spec.get("hostUsers") is False
        if (self.exempts_windows and is_windows) or (
            self.exempts_user_namespaces and has_user_namespace
        ):
            return None
        return self.check(pod)


class PolicyRule(Struct, frozen=True):
    """Rule of a level with its versions in order; it replaces the rule `overrides`."""

    id: str
    level: str
    versions: tuple[VersionedCheck, ...]
    overrides: str = ""

    def find_check(self, minor: int) -> VersionedCheck | None:
        """Return the check of a version of the policy; None before the first one."""
        checks = [check for check in self.versions if check.minor <= minor]
        return checks[-1] if checks else None


def _quote(names: Iterable[str]) -> str:
    return enclose('"', '", "'.join(names), '"')


def _select_form(noun: str, items: Iterable[Any]) -> str:
    """Return a noun in singular for one item, else in plural."""
    return noun if len(list(items)) == 1 else f"{noun}s"


def _name_containers(names: list[str]) -> str:
    return f"{_select_form('container', names)} {_quote(names)}" if names else ""


def _join_setters(*setters: str) -> str:
    """Join the non-empty parts of a pod that set a value."""
    return " and ".join(filter(None, setters))


def _check_host_namespaces(pod: PodContent) -> PolicyViolation | None:
    fields = [
        f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(name)
    ]
    return PolicyViolation("host namespaces", ", ".join(fields)) if fields else None


def _check_host_paths(pod: PodContent) -> PolicyViolation | None:
    names = [
        get_text(volume, "name")
        for volume in list_mappings(pod.spec, "volumes")
        if volume.get("hostPath") is not None
    ]
    if not names:
        return None
    return PolicyViolation("hostPath volumes", f"{_select_form('volume', names)} {_quote(names)}")


def _check_host_ports(pod: PodContent) -> PolicyViolation | None:
    has_host_network = pod.spec.get("hostNetwork") is True
    names: list[str] = []
    all_ports: set[str] = set()
    for name, container in pod.containers:
        ports = [
            # Kubernetes sets the host port of a pod in the network of its host.
            get_integer(port, "hostPort", 0)
            or (get_integer(port, "containerPort", 0) if has_host_network else 0)
            for port in list_mappings(container, "ports")
        ]
        host_ports = {str(port) for port in ports if port}
        if host_ports:
            names.append(name)
            all_ports |= host_ports
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    noun = _select_form("hostPort", all_ports)
    return PolicyViolation(
        "hostPort", f"{_name_containers(names)} {verb} {noun} {', '.join(sorted(all_ports))}"
    )


def _list_handler_hosts(container: _Object) -> Iterator[str]:
    """Yield the hosts named by the probes and lifecycle handlers of a container."""
    handlers = [get_mapping(container, probe) for probe in _PROBES]
    handlers += [get_mapping(container, "lifecycle", handler) for handler in _HANDLERS]
    for handler in handlers:
        for action in ("httpGet", "tcpSocket"):
            host = get_text(handler, action, "host")
            if host:
                yield host


def _check_handler_hosts(pod: PodContent) -> PolicyViolation | None:
    names: set[str] = set()
    all_hosts: set[str] = set()
    for name, container in pod.containers:
        hosts = set(_list_handler_hosts(container))
        if hosts:
            names.add(name)
            all_hosts |= hosts
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    noun = _select_form("probe or lifecycle host", all_hosts)
    return PolicyViolation(
        "probe or lifecycle host",
        f"{_name_containers(sorted(names))} {verb} {noun} {_quote(sorted(all_hosts))}",
    )


def _check_privileged(pod: PodContent) -> PolicyViolation | None:
    names = [name for name, context in pod.container_contexts if context.get("privileged") is True]
    if not names:
        return None
    return PolicyViolation(
        "privileged", f"{_name_containers(names)} must not set securityContext.privileged=true"
    )


def _check_proc_mount(pod: PodContent) -> PolicyViolation | None:
    mounts = [
        (name, str(context["procMount"]))
        for name, context in pod.container_contexts
        if context.get("procMount") not in (None, "Default")
    ]
    if not mounts:
        return None
    names = [name for name, _ in mounts]
    values = sorted({value for _, value in mounts})
    return PolicyViolation(
        "procMount",
        f"{_name_containers(names)} must not set securityContext.procMount to {_quote(values)}",
    )


def _check_default_capabilities(pod: PodContent) -> PolicyViolation | None:
    names: list[str] = []
    forbidden: set[str] = set()
    for name, context in pod.container_contexts:
        added = set(map(str, get_list(context, "capabilities", "add"))) - _CAPABILITIES
        if added:
            names.append(name)
            forbidden |= added
    if not names:
        return None
    return PolicyViolation(
        "non-default capabilities",
        f"{_name_containers(names)} must not include {_quote(sorted(forbidden))} in "
        "securityContext.capabilities.add",
    )


def _check_dropped_capabilities(pod: PodContent) -> PolicyViolation | None:
    keeping: list[str] = []
    adding: list[str] = []
    forbidden: set[str] = set()
    for name, context in pod.container_contexts:
        if "ALL" not in get_list(context, "capabilities", "drop"):
            keeping.append(name)
        added = set(map(str, get_list(context, "capabilities", "add"))) - {"NET_BIND_SERVICE"}
        if added:
            adding.append(name)
            forbidden |= added
    details: list[str] = []
    if keeping:
        details.append(
            f'{_name_containers(keeping)} must set securityContext.capabilities.drop=["ALL"]'
        )
    if adding:
        details.append(
            f"{_name_containers(adding)} must not include {_quote(sorted(forbidden))} in "
            "securityContext.capabilities.add"
        )
    return PolicyViolation("unrestricted capabilities", "; ".join(details)) if details else None


def _check_apparmor(pod: PodContent) -> PolicyViolation | None:
    pod_values = _list_bad_profile_types([("pod", pod.context)], "appArmorProfile")
    container_values = _list_bad_profile_types(pod.container_contexts, "appArmorProfile")
    values = sorted({value for _, value in (*pod_values, *container_values)})
    annotations = sorted(
        f'{key}="{value}"'
        for key, value in pod.annotations.items()
        if key.startswith(_CONTAINER_APPARMOR)
        and value not in ("", "runtime/default")
        and not str(value).startswith("localhost/")
    )
    all_values = [*values, *annotations]
    if not all_values:
        return None
    setters = _join_setters(
        "pod" if pod_values else "",
        _name_containers([name for name, _ in container_values]),
        _select_form("annotation", annotations) if annotations else "",
    )
    return PolicyViolation(
        _select_form("forbidden AppArmor profile", all_values),
        f"{setters} must not set AppArmor profile type to {_quote(all_values)}",
    )


def _list_bad_profile_types(
    contexts: Iterable[tuple[str, _Object]], field: str
) -> list[tuple[str, str]]:
    """Return the type of each profile that is set and not allowed, with its container."""
    return [
        (name, get_text(context, field, "type"))
        for name, context in contexts
        if context.get(field) is not None and get_text(context, field, "type") not in _PROFILE_TYPES
    ]


def _check_selinux(allowed_types: frozenset[str]) -> _Check:
    """Return the check of SELinux options with these allowed types."""

    def check(pod: PodContent) -> PolicyViolation | None:
        pod_options = get_mapping(pod.context, "seLinuxOptions")
        options_by_setter = [("", pod_options)]
        options_by_setter += [
            (name, get_mapping(context, "seLinuxOptions"))
            for name, context in pod.container_contexts
        ]
        bad = [
            (name, options)
            for name, options in options_by_setter
            if get_text(options, "type") not in allowed_types
            or get_text(options, "user")
            or get_text(options, "role")
        ]
        if not bad:
            return None
        types = sorted({get_text(options, "type") for _, options in bad} - allowed_types)
        data = [f"{_select_form('type', types)} {_quote(types)}"] if types else []
        data += [
            f"{field} may not be set"
            for field in ("user", "role")
            if any(get_text(options, field) for _, options in bad)
        ]
        is_pod_bad = any(options is pod_options for _, options in bad)
        names = [name for name, options in bad if options is not pod_options]
        setters = _join_setters("pod" if is_pod_bad else "", _name_containers(names))
        return PolicyViolation(
            "seLinuxOptions",
            f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}",
        )

    return check


def _check_seccomp_annotations(pod: PodContent) -> PolicyViolation | None:
    keys = [_SECCOMP, *(f"{_CONTAINER_SECCOMP}{name}" for name, _ in pod.containers)]
    forbidden = sorted(
        {
            f'{key}="{pod.annotations[key]}"'
            for key in keys
            if key in pod.annotations
            and pod.annotations[key] not in ("runtime/default", "docker/default")
            and not str(pod.annotations[key]).startswith("localhost/")
        }
    )
    if not forbidden:
        return None
    noun = _select_form("annotation", forbidden)
    return PolicyViolation("seccompProfile", f"forbidden {noun} {', '.join(forbidden)}")


def _check_seccomp(pod: PodContent) -> PolicyViolation | None:
    pod_values = _list_bad_profile_types([("pod", pod.context)], "seccompProfile")
    container_values = _list_bad_profile_types(pod.container_contexts, "seccompProfile")
    values = sorted({value for _, value in (*pod_values, *container_values)})
    if not values:
        return None
    setters = _join_setters(
        "pod" if pod_values else "", _name_containers([name for name, _ in container_values])
    )
    return PolicyViolation(
        "seccompProfile",
        f"{setters} must not set securityContext.seccompProfile.type to {_quote(values)}",
    )


def _check_required_seccomp(pod: PodContent) -> PolicyViolation | None:
    violation = _check_seccomp(pod)
    if violation is not None or pod.context.get("seccompProfile") is not None:
        return violation
    names = [
        name for name, context in pod.container_contexts if context.get("seccompProfile") is None
    ]
    if not names:
        return None
    return PolicyViolation(
        "seccompProfile",
        f"pod or {_name_containers(names)} must set securityContext.seccompProfile.type to "
        '"RuntimeDefault" or "Localhost"',
    )


def _check_sysctls(allowed_names: frozenset[str]) -> _Check:
    """Return the check of sysctls with these allowed names."""

    def check(pod: PodContent) -> PolicyViolation | None:
        names = [get_text(item, "name") for item in list_mappings(pod.context, "sysctls")]
        forbidden = [name for name in names if name not in allowed_names]
        return PolicyViolation("forbidden sysctls", ", ".join(forbidden)) if forbidden else None

    return check


def _check_host_process(pod: PodContent) -> PolicyViolation | None:
    is_pod_bad = get_mapping(pod.context, "windowsOptions").get("hostProcess") is True
    names = [
        name
        for name, context in pod.container_contexts
        if get_mapping(context, "windowsOptions").get("hostProcess") is True
    ]
    setters = _join_setters("pod" if is_pod_bad else "", _name_containers(names))
    if not setters:
        return None
    return PolicyViolation(
        "hostProcess", f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    )


def _check_privilege_escalation(pod: PodContent) -> PolicyViolation | None:
    names = [
        name
        for name, context in pod.container_contexts
        if context.get("allowPrivilegeEscalation") is not False
    ]
    if not names:
        return None
    return PolicyViolation(
        "allowPrivilegeEscalation != false",
        f"{_name_containers(names)} must set securityContext.allowPrivilegeEscalation=false",
    )


def _check_volume_sources(pod: PodContent) -> PolicyViolation | None:
    names: list[str] = []
    sources: set[str] = set()
    for volume in list_mappings(pod.spec, "volumes"):
        present = {key for key, value in volume.items() if key != "name" and value is not None}
        # Kubernetes adds an emptyDir to a volume without a source.
        if present and not present & _VOLUME_SOURCES:
            names.append(get_text(volume, "name"))
            sources |= present
    if not names:
        return None
    verb = "uses" if len(names) == 1 else "use"
    noun = _select_form("restricted volume type", sources)
    return PolicyViolation(
        "restricted volume types",
        f"{_select_form('volume', names)} {_quote(names)} {verb} {noun} {_quote(sorted(sources))}",
    )


def _check_non_root(pod: PodContent) -> PolicyViolation | None:
    pod_value = pod.context.get("runAsNonRoot")
    values = [(name, context.get("runAsNonRoot")) for name, context in pod.container_contexts]
    setters = _join_setters(
        "pod" if pod_value is False else "",
        _name_containers([name for name, value in values if value is False]),
    )
    reason = "runAsNonRoot != true"
    if setters:
        return PolicyViolation(reason, f"{setters} must not set securityContext.runAsNonRoot=false")
    names = [name for name, value in values if value is None and pod_value is not True]
    if not names:
        return None
    return PolicyViolation(
        reason, f"pod or {_name_containers(names)} must set securityContext.runAsNonRoot=true"
    )


def _check_root_user(pod: PodContent) -> PolicyViolation | None:
    names = [name for name, context in pod.container_contexts if _is_root(context)]
    setters = _join_setters("pod" if _is_root(pod.context) else "", _name_containers(names))
    return (
        PolicyViolation("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None
    )


def _is_root(context: _Object) -> bool:
    user = context.get("runAsUser")
    return user == 0 and user is not False


def _build_rule(
    rule_id: str, level: str, *checks: tuple[int, _Check], overrides: str = ""
) -> PolicyRule:
    """Return a rule with checks by minor version, without exemptions."""
    versions = tuple(VersionedCheck(minor, check) for minor, check in checks)
    return PolicyRule(rule_id, level, versions, overrides)


def _build_linux_rule(rule_id: str, minor: int, check: _Check, overrides: str = "") -> PolicyRule:
    """Return a restricted rule that exempts Windows pods from 1.25 on."""
    versions = (VersionedCheck(minor, check), VersionedCheck(25, check, exempts_windows=True))
    return PolicyRule(rule_id, _RESTRICTED, versions, overrides)


def _build_user_rule(rule_id: str, level: str, minor: int, check: _Check) -> PolicyRule:
    """Return a rule that exempts pods in a user namespace from 1.35 on."""
    versions = (
        VersionedCheck(minor, check),
        VersionedCheck(35, check, exempts_user_namespaces=True),
    )
    return PolicyRule(rule_id, level, versions)


# In the order of Kubernetes: by level, then by id.
POLICY_RULES: Final = (
    _build_rule("appArmorProfile", _BASELINE, (0, _check_apparmor)),
    _build_rule("capabilities_baseline", _BASELINE, (0, _check_default_capabilities)),
    _build_rule("hostNamespaces", _BASELINE, (0, _check_host_namespaces)),
    _build_rule("hostPathVolumes", _BASELINE, (0, _check_host_paths)),
    _build_rule("hostPorts", _BASELINE, (0, _check_host_ports)),
    _build_rule("hostProbesAndHostLifecycle", _BASELINE, (34, _check_handler_hosts)),
    _build_rule("privileged", _BASELINE, (0, _check_privileged)),
    _build_user_rule("procMount", _BASELINE, 0, _check_proc_mount),
    _build_rule(
        "seLinuxOptions",
        _BASELINE,
        (0, _check_selinux(_SELINUX_TYPES)),
        (31, _check_selinux(_SELINUX_TYPES | {"container_engine_t"})),
    ),
    _build_rule(
        "seccompProfile_baseline", _BASELINE, (0, _check_seccomp_annotations), (19, _check_seccomp)
    ),
    _build_rule(
        "sysctls",
        _BASELINE,
        (0, _check_sysctls(_SYSCTLS)),
        (27, _check_sysctls(_SYSCTLS_27)),
        (29, _check_sysctls(_SYSCTLS_29)),
        (32, _check_sysctls(_SYSCTLS_32)),
        (37, _check_sysctls(_SYSCTLS_37)),
    ),
    _build_rule("windowsHostProcess", _BASELINE, (0, _check_host_process)),
    _build_linux_rule("allowPrivilegeEscalation", 8, _check_privilege_escalation),
    _build_linux_rule(
        "capabilities_restricted", 22, _check_dropped_capabilities, "capabilities_baseline"
    ),
    _build_rule(
        "procMount_restricted", _RESTRICTED, (35, _check_proc_mount), overrides="procMount"
    ),
    _build_rule(
        "restrictedVolumes", _RESTRICTED, (0, _check_volume_sources), overrides="hostPathVolumes"
    ),
    _build_user_rule("runAsNonRoot", _RESTRICTED, 0, _check_non_root),
    _build_user_rule("runAsUser", _RESTRICTED, 23, _check_root_user),
    _build_linux_rule(
        "seccompProfile_restricted", 19, _check_required_seccomp, "seccompProfile_baseline"
    ),
)


def find_violations(level: str, minor: int, pod: PodContent) -> list[PolicyViolation]:
    """Return the violations of a level's rules in a version of the policy (1.`minor`)."""
    levels = {_BASELINE: (_BASELINE,), _RESTRICTED: (_BASELINE, _RESTRICTED)}.get(level, ())
    checks = [
        (rule, check)
        for rule in POLICY_RULES
        if rule.level in levels
        for check in (rule.find_check(minor),)
        if check is not None
    ]
    overridden_ids = {rule.overrides for rule, _ in checks}
    violations = (
        check.find_violation(pod) for rule, check in checks if rule.id not in overridden_ids
    )
    return [violation for violation in violations if violation is not None]


def find_pod_security_rejection(
    labels: Mapping[str, str],
    annotations: Mapping[str, Any],
    spec: _Object,
    version: tuple[int, ...],
) -> str:
    """Return why the Pod Security level of a namespace rejects a pod; "" if it does not.

    `labels` are those of the namespace. `version` is the one of Kubernetes, () if unknown: then the
    newest policy decides. Kubernetes takes an unknown level for restricted, and an unknown version
    for the latest.
    """
    level = labels.get(_LABEL, _PRIVILEGED)
    if level not in (_PRIVILEGED, _BASELINE):
        level = _RESTRICTED
    newest_minor = min(version[1], _NEWEST_MINOR) if len(version) > 1 else _NEWEST_MINOR
    match = _VERSION.match(labels.get(f"{_LABEL}-version", _LATEST))
    minor = min(int(match.group(1)), newest_minor) if match else newest_minor
    violations = find_violations(level, minor, PodContent(annotations, spec))
    if not violations:
        return ""
    texts = ", ".join(f"{item.reason} ({item.detail})" for item in violations)
    policy = f"{level}:{match.group(0) if match else _LATEST}"
    return f'violates PodSecurity "{policy}": {texts}'
