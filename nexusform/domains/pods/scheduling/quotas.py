"""ResourceQuotas: whether a pod of a namespace is made at all.

A pod that the quota does not admit does not exist, so it is not Pending either: its controller tries again.
Source: kubernetes pkg/quota/v1/evaluator/core/pods.go and plugin/pkg/admission/resourcequota (words of the
reasons).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from nexusform.domains.pods.scheduling.workloads import PodSpec, Quota, QuotaScope
from nexusform.kubernetes.matching import EXISTS, IN, NOT_IN

_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_PODS: Final = ("pods", "count/pods")
_PLAIN: Final = ("cpu", "memory", "ephemeral-storage")


class Ledger:
    """What the pods of a cluster's namespaces use of their quotas."""

    def __init__(self, quotas: Iterable[Quota]) -> None:
        self._accounts = [_Account(quota, {}) for quota in quotas]

    def book(self, pod: PodSpec) -> None:
        """A pod exists."""
        self._count(pod, 1)

    def release(self, pod: PodSpec) -> None:
        """A pod that was booked exists no more."""
        self._count(pod, -1)

    def _count(self, pod: PodSpec, sign: int) -> None:
        """Add a pod (sign 1) to what its quotas have in use, or take it away (sign -1)."""
        for account in self._accounts:
            if _speaks_of(account.quota, pod):
                for name, amount in _charge(account.quota, pod).items():
                    account.used[name] = account.used.get(name, 0) + sign * amount

    def admit(self, pod: PodSpec) -> str:
        """Book one more pod; why it is not made, "" when it is."""
        reason = self.refusal(pod)
        if not reason:
            self.book(pod)
        return reason

    def refusal(self, pod: PodSpec) -> str:
        """Why one more pod would not be made, "" when it would."""
        for account in self._accounts:
            if _speaks_of(account.quota, pod):
                reason = _refusal(account, pod)
                if reason:
                    return reason
        return ""


class _Account(Struct, frozen=True):
    quota: Quota
    used: dict[str, int]


def _refusal(account: _Account, pod: PodSpec) -> str:
    """Why a quota refuses a pod, as Kubernetes says it; "" when it does not."""
    quota, used = account.quota, account.used
    limits = dict(quota.hard)
    unstated = [name for name in limits if _long_name(name) in pod.quota_figures.left_out]
    if unstated:
        return f"failed quota: {quota.name}: must specify {', '.join(unstated)} for every container"
    charge = _charge(quota, pod)
    after = {name: used.get(name, 0) + amount for name, amount in charge.items()}
    exceeded = [name for name, amount in charge.items() if amount and after[name] > limits[name]]
    if not exceeded:
        return ""
    figures = [_listed(exceeded, amounts) for amounts in (charge, used, limits)]
    return "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(quota.name, *figures)


def _listed(names: Iterable[str], amounts: Mapping[str, int]) -> str:
    return ",".join(f"{name}={_amount(name, amounts.get(name, 0))}" for name in names)


def _amount(name: str, amount: int) -> str:
    """An amount as Kubernetes writes it: CPU, which is counted in milli, in whole units where it can."""
    if not name.endswith("cpu") or amount % 1000 == 0:
        return str(amount // 1000 if name.endswith("cpu") else amount)
    return f"{amount}m"


def _long_name(name: str) -> str:
    return _REQUESTS + name if name in _PLAIN else name


def _charge(quota: Quota, pod: PodSpec) -> dict[str, int]:
    """What a pod counts for, of what the quota limits."""
    amounts = dict.fromkeys(_PODS, 1)
    requests = (("cpu", pod.requests.cpu), ("memory", pod.requests.memory), *pod.requests.others)
    for name, amount in requests:
        amounts[_REQUESTS + name] = amount
        amounts[name] = amount
    amounts |= {_LIMITS + name: amount for name, amount in pod.quota_figures.limits}
    return {name: amounts.get(name, 0) for name, _ in quota.hard}


def _speaks_of(quota: Quota, pod: PodSpec) -> bool:
    """Whether a quota counts a pod: it is of its namespace and of all its scopes."""
    return quota.namespace == pod.namespace and all(_in_scope(scope, pod) for scope in quota.scopes)


def _in_scope(scope: QuotaScope, pod: PodSpec) -> bool:
    """Whether a pod is of the kind that a scope speaks of."""
    best_effort = not (pod.requests.cpu or pod.requests.memory or pod.quota_figures.limits)
    match scope.name:
        case "BestEffort":
            return best_effort
        case "NotBestEffort":
            return not best_effort
        case "Terminating":
            return pod.quota_figures.finite
        case "NotTerminating":
            return not pod.quota_figures.finite
        case "CrossNamespacePodAffinity":
            return _looks_elsewhere(pod)
        case _:
            return _of_class(scope, pod.quota_figures.priority_class)


def _of_class(scope: QuotaScope, priority_class: str) -> bool:
    """Whether a scope over priority classes covers a pod of this class ("" = it has none)."""
    if scope.operator in (IN, NOT_IN):
        return (priority_class in scope.values) == (scope.operator == IN)
    return bool(priority_class) == (scope.operator == EXISTS)


def _looks_elsewhere(pod: PodSpec) -> bool:
    """Whether some term of a pod looks at pods of other namespaces."""
    terms = pod.affinity + pod.anti_affinity + pod.preferred_affinity + pod.preferred_anti_affinity
    return any(term.namespace_selector is not None or term.namespaces != (pod.namespace,) for term in terms)
