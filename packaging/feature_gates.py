"""Write domains/pods/scheduling/assets/feature_gates.txt.

The feature gates of Kubernetes' servers, with their defaults per minor version.

From the Go modules of Kubernetes, which `go mod download` gets: run this with the full versions
to read, the newest patch of each minor version, and write what it prints to that file.

    python packaging/feature_gates.py 1.34.4 1.35.4 1.36.3 1.37.2
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

# Modules with feature gates of kube-scheduler, kubelet, the controllers and the API server.
FILES = {
    "k8s.io/kubernetes": "pkg/features/kube_features.go",
    "k8s.io/apiserver": "pkg/features/kube_features.go",
    "k8s.io/apiextensions-apiserver": "pkg/features/kube_features.go",
    "k8s.io/client-go": "features/known_features.go",
    "k8s.io/controller-manager": "pkg/features/kube_features.go",
    "k8s.io/component-base": "metrics/features/kube_features.go",
}
CONSTANT = re.compile(r"(\w+)\s+(?:featuregate\.)?Feature\s*=\s*\"(\w+)\"")
GATE = re.compile(r"^\t+(?:\w+\.)?(\w+): \{\n(.*?)^\t+\},", re.MULTILINE | re.DOTALL)
SPEC = re.compile(r'MustParse\("(\d+)\.(\d+)"\), Default: (true|false)([^}]*)\}')


def find_source(module: str, version: str) -> Path:
    """Download a module and return its directory."""
    words = ["go", "mod", "download", "-json", f"{module}@{version}"]
    answer = subprocess.run(words, check=True, capture_output=True, text=True, cwd="/")  # noqa: S603
    return Path(json.loads(answer.stdout)["Dir"])


def read_defaults(text: str, names: dict[str, str], version: tuple[int, int]) -> dict[str, str]:
    """Return the gates of a source file that a version has, each with its default."""
    defaults = {}
    for constant, body in GATE.findall(text):
        # The last entry up to this version counts.
        default = ""
        for major, minor, value, rest in SPEC.findall(body):
            if (int(major), int(minor)) <= version:
                is_locked = "LockToDefault: true" in rest
                default = ("on" if value == "true" else "off") + ("-locked" if is_locked else "")
        if default:
            defaults[names.get(constant, constant)] = default
    return defaults


def read_version(version: str) -> dict[str, str]:
    """Return the gates of a full version, each with its default."""
    major, minor, _ = version.split(".")
    texts = []
    for module, path in FILES.items():
        tag = f"v{version}" if module == "k8s.io/kubernetes" else f"v0.{version.split('.', 1)[1]}"
        texts.append((find_source(module, tag) / path).read_text())
    # kubernetes names gates of the other modules by their constants.
    names = dict(CONSTANT.findall("\n".join(texts)))
    defaults = {}
    for text in reversed(texts):
        defaults |= read_defaults(text, names, (int(major), int(minor)))
    if len(defaults) < 100:
        sys.exit(f"{version}: only {len(defaults)} gates were read; the sources have changed.")
    return defaults


def main() -> None:
    """Write the table to stdout."""
    versions = sys.argv[1:]
    columns = {version: read_version(version) for version in versions}
    out = sys.stdout.write
    out("# The feature gates of Kubernetes and their defaults, by minor version.\n")
    out("# Made by packaging/feature_gates.py.\n")
    out("# -locked: a server cannot change it; -: the version has no such gate.\n")
    out(f"# Source: the Go modules of Kubernetes {' '.join(versions)}.\n")
    out(" ".join(["gate", *(version.rpartition(".")[0] for version in versions)]) + "\n")
    for gate in sorted(set().union(*columns.values())):
        out(" ".join([gate, *(columns[version].get(gate, "-") for version in versions)]) + "\n")


main()
