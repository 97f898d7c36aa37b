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
mkdir lines && cp "$here/lines.go" lines/
programs=(scheduling rollout eviction override run selection)
for program in "${programs[@]}"; do
    mkdir "$program"
    cp "$here/$program.go" "$program/judge.go"
done
# These functions are not exported.
copy_source() { # PROGRAM, FILES below pkg/controllers...
    local program=$1 file
    shift
    for file in "$@"; do
        sed 's/^package .*/package main/' "$source/pkg/controllers/$file" > "$program/$(basename "$file")"
    done
}
copy_source rollout rollout/controller.go
copy_source override workgenerator/override.go
copy_source run updaterun/{controller,execution,initialization,metrics,stop,validation}.go
mkdir bin
go build -mod=mod -trimpath -ldflags "-s -w" -o bin/ "${programs[@]/#/./}"
mv bin/* "$out/"
