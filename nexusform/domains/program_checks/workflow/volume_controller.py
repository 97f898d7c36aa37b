"""Claims and volumes in an API server without kube-controller-manager.

kube-scheduler chooses a volume, or a node for a new one, and waits until a controller has bound the
claim. This does what the controller and a provisioner would do.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.domains.program_checks.workflow.loopback_programs import LoopbackPrograms
from nexusform.json_data.plain_data import get_mapping, get_text

Body = dict[str, Any]
CLAIMS: Final = "/api/v1/namespaces/{}/persistentvolumeclaims"
VOLUMES: Final = "/api/v1/persistentvolumes"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


class VolumeController:
    """Claims and volumes as sent, and their binding."""

    def __init__(self, running: LoopbackPrograms) -> None:
        """Keep the API server; nothing is created yet."""
        self._running = running
        # Originals by path.
        self._sent: dict[str, Body] = {}
        # Names of volumes created for claims.
        self._provisioned: set[str] = set()

    def create(self, body: Body) -> None:
        """Create a claim or a volume with its status; a volume refers to the claim of this server.

        Raises ProgramProblem, or RejectedRequestError.
        """
        is_claim = body["kind"] == "PersistentVolumeClaim"
        folder = (
            CLAIMS.format(body["metadata"].get("namespace", "default")) if is_claim else VOLUMES
        )
        path = f"{folder}/{body['metadata']['name']}"
        self._sent[path] = body
        status = dict(get_mapping(body, "status"))
        sent = {key: value for key, value in body.items() if key != "status"}
        if not is_claim:
            reference = get_mapping(body, "spec", "claimRef")
            sent["spec"] = {**body["spec"], **self._replace_claim_id(reference)}
            # A dump without phases has usable volumes.
            status.setdefault("phase", "Bound" if reference else "Available")
        self._running.call("POST", f"{folder}?fieldValidation=Strict", sent)
        if status:
            self._running.call("PATCH", f"{path}/status", {"status": status}, "merge-patch")

    def _replace_claim_id(self, reference: Mapping[str, Any]) -> Body:
        """Return the claimRef of a volume with the uid that its claim has on this server.

        A volume of a deleted claim, or one reserved by name alone, keeps its reference.
        """
        uid = get_text(reference, "uid")
        path = f"{CLAIMS.format(get_text(reference, 'namespace'))}/{get_text(reference, 'name')}"
        claim = self._sent.get(path)
        original_uid = get_text(claim, "uid") if claim is not None else ""
        if not reference or not uid or uid != original_uid:
            return {"claimRef": dict(reference)} if reference else {}
        current = self._running.call("GET", path)
        return {"claimRef": {**reference, "uid": get_text(current, "metadata", "uid")}}

    def bind(self, pod: Body) -> None:
        """Bind the claims of a pod for which kube-scheduler has chosen a volume or a node."""
        namespace = pod["metadata"]["namespace"]
        for name in list_claim_names(pod):
            claim = self._running.call("GET", f"{CLAIMS.format(namespace)}/{name}")
            if claim and not get_text(claim, "spec", "volumeName"):
                volume = self._find_chosen_volume(claim) or self._provision(claim)
                if volume:
                    self._bind_claim(claim, volume)

    def _find_chosen_volume(self, claim: Mapping[str, Any]) -> str:
        """Return the name of the volume that refers to a claim, "" for none."""
        uid = get_text(claim, "metadata", "uid")
        volumes = self._running.call("GET", VOLUMES).get("items", ())
        names = (
            volume["metadata"]["name"]
            for volume in volumes
            if get_text(volume, "spec", "claimRef", "uid") == uid
        )
        return next(names, "")

    def _provision(self, claim: Mapping[str, Any]) -> str:
        """Create a volume for a claim with a selected node; return its name, "" without a node."""
        metadata = claim["metadata"]
        if not get_text(metadata, "annotations", _SELECTED_NODE):
            return ""
        name = f"pvc-{metadata['uid']}"
        class_name = get_text(claim, "spec", "storageClassName")
        path = f"/apis/storage.k8s.io/v1/storageclasses/{class_name}"
        driver = get_text(self._running.call("GET", path), "provisioner")
        spec = {
            "capacity": get_mapping(claim, "spec", "resources", "requests"),
            "accessModes": claim["spec"].get("accessModes", []),
            "storageClassName": class_name,
            "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
            "csi": {"driver": driver, "volumeHandle": name},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        }
        body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
        self._running.call("POST", VOLUMES, {**body, "spec": spec})
        self._provisioned.add(name)
        return name

    def delete_provisioned(self) -> None:
        """Delete the volumes created for claims."""
        for name in self._provisioned:
            self._running.call("DELETE", f"{VOLUMES}/{name}")
        self._provisioned.clear()
        self._sent.clear()

    def _bind_claim(self, claim: Mapping[str, Any], volume: str) -> None:
        """Complete the binding of a claim to a volume, as the volume controller does."""
        metadata = claim["metadata"]
        bound = {"status": {"phase": "Bound"}}
        self._running.call("PATCH", f"{VOLUMES}/{volume}/status", bound, "merge-patch")
        path = f"{CLAIMS.format(metadata['namespace'])}/{metadata['name']}"
        annotations = {_BIND_COMPLETED: "yes", _BOUND_BY_CONTROLLER: "yes"}
        change = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}}
        self._running.call("PATCH", path, change, "merge-patch")
        self._running.call("PATCH", f"{path}/status", bound, "merge-patch")

    def reset(self, pod: Body) -> None:
        """Create the claims of a pod and their volumes again, as they were sent."""
        namespace = pod["metadata"]["namespace"]
        for name in list_claim_names(pod):
            path = f"{CLAIMS.format(namespace)}/{name}"
            claim = self._running.call("GET", path)
            original = self._sent.get(path)
            if not claim or original is None:
                continue
            volume = self._find_chosen_volume(claim)
            self._running.call("DELETE", path)
            self.create(original)
            if volume:
                self._running.call("DELETE", f"{VOLUMES}/{volume}")
                sent_volume = self._sent.get(f"{VOLUMES}/{volume}")
                # Otherwise it was provisioned.
                if sent_volume is not None:
                    self.create(sent_volume)


def list_claim_names(pod: Mapping[str, Any]) -> Iterable[str]:
    """Return the names of the claims of a pod."""
    volumes = get_mapping(pod, "spec").get("volumes") or ()
    return [
        name
        for name in (get_text(item, "persistentVolumeClaim", "claimName") for item in volumes)
        if name
    ]
