#!/usr/bin/env bash
# Builds the programs of this directory, which decide with KubeFleet's own packages and without an API server:
#   build_judge.sh DIR [CHECKOUT]
# KubeFleet is a Go module of a commit. Where the module proxy does not serve it, CHECKOUT is a directory that holds it.
# Then: NEXUSFORM_KUBEFLEET_JUDGE=DIR python -m pytest tests/domains/fleet/judge
set -euo pipefail
mkdir -p "$1"
out=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
commit=e160c1cdfdd9 module=github.com/kubefleet-dev/kubefleet
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -n "${2:-}" ]; then
    source=$(cd "$2" && pwd) version=v0.0.0
    replaced=$(printf 'replace %s => %s' "$module" "$source")
else
    found=$(go mod download -json "$module@$commit")
    source=$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<< "$found")
    version=$(sed -n 's/.*"Version": "\(.*\)".*/\1/p' <<< "$found")
    replaced=""
fi
cd "$work"
printf 'module judge.test/kubefleet\n\nrequire %s %s\n\n%s\n' "$module" "$version" "$replaced" > go.mod
# What KubeFleet replaces holds for its own builds alone, so it is repeated here.
sed -n '/^go /p; /^toolchain /p; /^replace (/,/^)/p; /^replace [^(]/p' "$source/go.mod" >> go.mod
cp "$source/go.sum" .
mkdir rollout eviction
cp "$here/rollout.go" rollout/
# Its function for one pass is not exported.
sed 's/^package rollout/package main/' "$source/pkg/controllers/rollout/controller.go" > rollout/controller.go
cp "$here/eviction.go" eviction/
mkdir bin
go build -mod=mod -trimpath -ldflags "-s -w" -o bin/ ./rollout ./eviction
mv bin/* "$out/"
