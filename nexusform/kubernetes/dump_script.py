"""Commands that list the objects of a cluster.

There is a command for a single file, and a script with one file per kind.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Final

# The command for a single file, and the kinds listed by it.
COMMAND: Final = "kubectl get ns,nodes,pods,pvc,pv,sc,pdb,quota,limits,priorityclasses -A -o json"
COMMAND_KINDS: Final = (
    *("Namespace", "Node", "Pod", "PersistentVolumeClaim", "PersistentVolume", "StorageClass"),
    *("PodDisruptionBudget", "ResourceQuota", "LimitRange", "PriorityClass"),
)
# Kinds that affect pods. Every kind read by an importer is listed.
_KINDS: Final = (
    *("Namespace", "Node", "Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"),
    *(
        "ReplicationController",
        "HorizontalPodAutoscaler",
        "ScaledObject",
        "VerticalPodAutoscaler",
        "Service",
    ),
    *("PersistentVolumeClaim", "PersistentVolume", "StorageClass"),
    *("CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment"),
    *("PodDisruptionBudget", "ResourceQuota", "LimitRange", "PriorityClass", "RuntimeClass"),
    *(
        "NetworkAttachmentDefinition",
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
    ),
    *("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    *("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate"),
    *("ServiceAccount", "ConfigMap", "Secret", "CustomResourceDefinition"),
    *("DataVolume", "SriovNetwork", "SriovIBNetwork", "OVSNetwork"),
)
# Their names for kubectl. A kind not listed here is in lower case with an s. A kind of a CRD also
# has its group.
_PLURALS: Final = {
    **{
        kind: f"{kind.lower()}es"
        for kind in ("StorageClass", "PriorityClass", "RuntimeClass", "DeviceClass")
    },
    "CSIStorageCapacity": "csistoragecapacities",
    "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ScaledObject": "scaledobjects.keda.sh",
    "VerticalPodAutoscaler": "verticalpodautoscalers.autoscaling.k8s.io",
    "NetworkAttachmentDefinition": "network-attachment-definitions.k8s.cni.cncf.io",
    "DataVolume": "datavolumes.cdi.kubevirt.io",
    **{
        kind: f"{kind.lower()}s.sriovnetwork.openshift.io"
        for kind in ("SriovNetwork", "SriovIBNetwork", "OVSNetwork")
    },
}
CLUSTER_KINDS: Final[Mapping[str, str]] = {
    kind: _PLURALS.get(kind, f"{kind.lower()}s") for kind in _KINDS
}
# Kinds of a fleet hub, by their names for kubectl.
FLEET_KINDS: Final = (
    *(
        "clusterresourceplacements",
        "resourceplacements",
        "clusterresourcebindings",
        "resourcebindings",
    ),
    *("clusterschedulingpolicysnapshots", "schedulingpolicysnapshots"),
    *(
        "clusterresourcesnapshots",
        "resourcesnapshots",
        "clusterresourceoverrides",
        "resourceoverrides",
    ),
    *("clusterresourceoverridesnapshots", "resourceoverridesnapshots"),
    *("clusterresourceplacementdisruptionbudgets", "clusterresourceplacementevictions"),
    *("clusterstagedupdatestrategies", "stagedupdatestrategies"),
    *("clusterstagedupdateruns", "stagedupdateruns", "clusterapprovalrequests", "approvalrequests"),
    "memberclusters",
)
# Message of kubectl for a kind that the server does not have.
NO_SUCH_KIND: Final = "the server doesn't have a resource type"
# Part of kubectl's message for a missing right.
FORBIDDEN: Final = "(Forbidden)"


_IDENTITY: Final = (
    '"apiVersion":{{printf "%q" .apiVersion}},"kind":{{printf "%q" .kind}},"metadata":'
    '{"name":{{printf "%q" .metadata.name}}'
)
_KEYS: Final = '{{$comma}}{{printf "%q" $key}}:""{{$comma = ","}}'


def _build_template(content: str) -> str:
    """Return a go-template of kubectl that prints a list of objects as JSON."""
    items = "{{range $index, $item := .items}}{{if $index}},{{end}}{{with $item}}{ "
    start = f'{{"apiVersion":"v1","kind":"List","items":[{items}'
    return f"{start}{_IDENTITY}{content}}}{{{{end}}}}{{{{end}}}}]}}"


# The names and keys of ConfigMaps and Secrets: no value leaves the cluster.
_KEYS_TEMPLATE: Final = _build_template(
    ',"namespace":{{printf "%q" .metadata.namespace}}},"data":{ {{$comma := ""}}'
    f"{{{{range $key, $value := .data}}}}{_KEYS}{{{{end}}}}"
    f"{{{{range $key, $value := .binaryData}}}}{_KEYS}{{{{end}}}} }}"
)
# Without the schemas, which are long.
_DEFINITIONS_TEMPLATE: Final = _build_template(
    '},"spec":{"group":{{printf "%q" .spec.group}},'
    '"names":{"kind":{{printf "%q" .spec.names.kind}} } }'
)


def build_dump_script(
    directory: str, names: Iterable[str], optional_names: Collection[str] = ()
) -> str:
    """Return a script that writes each kind into DIRECTORY/KIND.json.

    It removes the files of an earlier capture first, and tries all kinds. If kubectl fails, its
    message is written into DIRECTORY/KIND.error, and the exit code is 1. A kind that the server
    lacks is no failure, nor is a missing right for one of `optional_names`.
    """
    kinds = " \\\n    ".join(names)
    return f"""#!/bin/sh
# Lists a cluster with kubectl, one file per kind. Changes nothing.
# Of ConfigMaps and Secrets it lists names and keys, no values.
directory={shlex.quote(directory)}
keys={shlex.quote(_KEYS_TEMPLATE)}
definitions={shlex.quote(_DEFINITIONS_TEMPLATE)}
kinds="\\
    {kinds}"
failed=0
mkdir -p "$directory"
for kind in $kinds; do
    rm -f "$directory/$kind.json" "$directory/$kind.part" "$directory/$kind.error"
done
for kind in $kinds; do
    case "$kind" in
    configmaps | secrets) format="go-template=$keys" ;;
    customresourcedefinitions) format="go-template=$definitions" ;;
    *) format=json ;;
    esac
    if kubectl get "$kind" -A -o "$format" --show-managed-fields \\
        > "$directory/$kind.part" 2> "$directory/$kind.error"
    then
        mv "$directory/$kind.part" "$directory/$kind.json"
        rm -f "$directory/$kind.error"
    else
        rm -f "$directory/$kind.part"
        echo "$kind: $(cat "$directory/$kind.error")" >&2
        grep -q "{NO_SUCH_KIND}" "$directory/$kind.error" && continue
        # The right to list these kinds is optional.
        case " {" ".join(sorted(optional_names))} " in
        *" $kind "*) grep -q "{FORBIDDEN}" "$directory/$kind.error" && continue ;;
        esac
        failed=1
    fi
done
exit $failed
"""
