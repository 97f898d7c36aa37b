"""ResourceQuotas: admission of new pods of a namespace.

A pod rejected by a quota does not exist, so it is not Pending either: its controller retries.
Source: kubernetes pkg/quota/v1/evaluator/core/pods.go and plugin/pkg/admission/resourcequota (texts
of the reasons).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import (
    PodSpec,
    ResourceQuota,
    ResourceQuotaScope,
)
from nexusform.kubernetes.matching import EXISTS, IN, NOT_IN

_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_POD_COUNTS: Final = ("pods", "count/pods")
# Short names of requests in quotas.
_FULL_NAMES: Final = {name: _REQUESTS + name for name in ("cpu", "memory", "ephemeral-storage")}


class QuotaUsage:
    """Resources used by pods under the quotas of a cluster."""

    def __init__(self, quotas: Iterable[ResourceQuota]) -> None:
        # The quotas with the used amounts by name.
        self._usages = [(quota, Counter(dict(quota.used))) for quota in quotas]

    def list_quotas(self) -> tuple[ResourceQuota, ...]:
        """Return the quotas with the amounts used now."""
        quotas: list[ResourceQuota] = []
        for quota, used_amounts in self._usages:
            quotas.append(replace(quota, used=tuple(sorted(used_amounts.items()))))
        return tuple(quotas)

    def remove(self, pod: PodSpec) -> None:
        """Remove a pod added before."""
        self.add(pod, -1)

    def add(self, pod: PodSpec, sign: int = 1) -> None:
        """Add an existing pod to the used amounts of its quotas, or subtract it.

        `sign` is 1 or -1.
        """
        for quota, used_amounts in self._list_usages(pod):
            for name, amount in _compute_pod_amounts(quota, pod).items():
                used_amounts[name] += sign * amount

    def _list_usages(self, pod: PodSpec) -> Iterator[tuple[ResourceQuota, Counter[str]]]:
        """Yield the quotas that count a pod, each with its used amounts.

        It matches the namespace and all scopes.
        """
        for quota, used_amounts in self._usages:
            if quota.namespace != pod.namespace:
                continue
            if all(_is_in_quota_scope(scope, pod) for scope in quota.scopes):
                yield quota, used_amounts

    def try_add(self, pod: PodSpec) -> str:
        """Add one more pod, or return why it is not created; "" if it is."""
        reason = self.find_rejection(pod)
        if not reason:
            self.add(pod)
        return reason

    def find_rejection(self, pod: PodSpec) -> str:
        """Return why one more pod would not be created, "" if it would."""
        rejections = (
            _find_quota_rejection(quota, amounts, pod) for quota, amounts in self._list_usages(pod)
        )
        return next(filter(None, rejections), "")


def _find_quota_rejection(quota: ResourceQuota, used_amounts: Counter[str], pod: PodSpec) -> str:
    """Return why a quota rejects a pod, in the words of Kubernetes; "" if it does not."""
    limits = dict(quota.hard)  # by resource
    # Names of requests and limits missing in some container.
    unspecified = pod.quota_figures.unspecified
    # A quota may have the short name of a request ("cpu" for "requests.cpu").
    unspecified_names = [name for name in limits if _FULL_NAMES.get(name, name) in unspecified]
    if unspecified_names:
        return (
            f"failed quota: {quota.name}: must specify {', '.join(unspecified_names)} for every "
            "container"
        )
    pod_amounts = _compute_pod_amounts(quota, pod)
    exceeded_names = [
        name
        for name, amount in pod_amounts.items()
        if amount and amount + used_amounts[name] > limits[name]
    ]
    if not exceeded_names:
        return ""
    texts = [
        _format_amounts(exceeded_names, amounts) for amounts in (pod_amounts, used_amounts, limits)
    ]
    return "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(quota.name, *texts)


def _format_amounts(names: Iterable[str], amounts: Mapping[str, int]) -> str:
    """Format these amounts as Kubernetes does, a missing one as 0: `cpu=500m,pods=2`.

    CPU is counted in milli.
    """
    texts: list[str] = []
    for name in names:
        amount = amounts.get(name, 0)
        text = str(amount)
        if name.endswith("cpu"):
            units, remainder = divmod(amount, 1000)
            text = f"{amount}m" if remainder else str(units)
        texts.append(f"{name}={text}")
    return ",".join(texts)


def _compute_pod_amounts(quota: ResourceQuota, pod: PodSpec) -> dict[str, int]:
    """Return the amounts of a pod by the names limited by a quota, 0 if it has none."""
    # Amounts for limits on the number of pods.
    amounts = dict.fromkeys(_POD_COUNTS, 1)
    requests = (
        ("cpu", pod.requests.cpu),
        ("memory", pod.requests.memory),
        *pod.requests.other_resources,
    )
    for name, amount in requests:
        amounts[_REQUESTS + name] = amount
        amounts[name] = amount
    amounts |= {_LIMITS + name: amount for name, amount in pod.quota_figures.limits}
    return {name: amounts.get(name, 0) for name, _ in quota.hard}


def _is_in_quota_scope(scope: ResourceQuotaScope, pod: PodSpec) -> bool:
    """Return whether a pod is in a scope of a quota.

    The scope PriorityClass compares the class of the pod with its values by the operator In or
    NotIn. Exists and DoesNotExist ask only whether the pod has a class.
    """
    # A GPU does not count.
    has_limit = any(name in ("cpu", "memory") for name, _ in pod.quota_figures.limits)
    is_best_effort = not (pod.requests.cpu or pod.requests.memory or has_limit)
    match scope.name:
        case "BestEffort" | "NotBestEffort":
            return is_best_effort == (scope.name == "BestEffort")
        case "Terminating" | "NotTerminating":
            return pod.quota_figures.has_deadline == (scope.name == "Terminating")
        case "CrossNamespacePodAffinity":
            # Also that of terms without namespaces.
            own_namespace = ((pod.namespace,), None)
            return any(
                (term.namespaces, term.namespace_selector) != own_namespace
                for term in pod.affinity_terms
            )
        case _:  # PriorityClass
            priority_class = pod.quota_figures.priority_class
            if scope.operator in (IN, NOT_IN):
                return (priority_class in scope.values) == (scope.operator == IN)
            return bool(priority_class) == (scope.operator == EXISTS)
