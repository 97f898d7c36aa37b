"""ResourceQuotas: whether a pod of a namespace is made at all.

A pod that the quota does not admit does not exist, so it is not Pending either: its controller tries again.
Source: kubernetes pkg/quota/v1/evaluator/core/pods.go and plugin/pkg/admission/resourcequota (words of the
reasons).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from nexusform.scheduling.matching import EXISTS, IN, NOT_IN
from nexusform.scheduling.pods.workloads import PodSpec, Quota, QuotaScope

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
        for account in self._accounts:
            if _speaks_of(account.quota, pod):
                for name, amount in _charge(account.quota, pod).items():
                    account.used[name] = account.used.get(name, 0) + amount

    def release(self, pod: PodSpec) -> None:
        """A pod that was booked exists no more."""
        for account in self._accounts:
            if _speaks_of(account.quota, pod):
                for name, amount in _charge(account.quota, pod).items():
                    account.used[name] = account.used.get(name, 0) - amount

    def admit(self, pod: PodSpec) -> str:
        """Book one more pod; why it is not made, "" when it is."""
        refused = self.refusal(pod)
        if not refused:
            self.book(pod)
        return refused

    def refusal(self, pod: PodSpec) -> str:
        """Why one more pod would not be made, "" when it would."""
        for account in self._accounts:
            if _speaks_of(account.quota, pod):
                refused = _refusal(account, pod)
                if refused:
                    return refused
        return ""


class _Account(Struct, frozen=True):
    quota: Quota
    used: dict[str, int]


def _refusal(account: _Account, pod: PodSpec) -> str:
    """Why a quota refuses a pod, as Kubernetes says it; "" when it does not."""
    quota, used = account.quota, account.used
    limited = dict(quota.hard)
    lacks = [name for name in limited if _long_name(name) in pod.quota_figures.left_out]
    if lacks:
        return f"failed quota: {quota.name}: must specify {', '.join(lacks)} for every container"
    charge = _charge(quota, pod)
    over = [name for name, amount in charge.items() if amount and used.get(name, 0) + amount > limited[name]]
    if not over:
        return ""
    figures = [_listed(over, amounts) for amounts in (charge, used, limited)]
    return "exceeded quota: {}, requested: {}, used: {}, limited: {}".format(quota.name, *figures)


def _listed(names: Iterable[str], amounts: Mapping[str, int]) -> str:
    return ",".join(f"{name}={_amount(name, amounts.get(name, 0))}" for name in names)


def _amount(name: str, amount: int) -> str:
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


def _of_class(scope: QuotaScope, name: str) -> bool:
    if scope.operator in (IN, NOT_IN):
        return (name in scope.values) == (scope.operator == IN)
    return bool(name) == (scope.operator == EXISTS)


def _looks_elsewhere(pod: PodSpec) -> bool:
    terms = pod.affinity + pod.anti_affinity + pod.preferred_affinity + pod.preferred_anti_affinity
    return any(term.namespace_selector is not None or term.namespaces != (pod.namespace,) for term in terms)
