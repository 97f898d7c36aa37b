#!/usr/bin/env bash
# Builds what the tests of this directory start, as ordinary Go modules: etcd and the servers of Kubernetes.
#   build_hub.sh DIR                 DIR gets etcd and kube-apiserver: five minutes on two cores, once.
#   build_hub.sh DIR pods [VERSION]  and kube-controller-manager and kube-scheduler, of a version of Kubernetes such as 1.36.0
#   build_hub.sh DIR hub [CHECKOUT]  and kube-controller-manager and KubeFleet's hub agent, which is a Go module of a
#   commit; where the module proxy does not serve it (kubefleet-dev/kubefleet has no tags), CHECKOUT is a directory that
#   holds that commit.
# Then: NEXUSFORM_HUB_PROGRAMS=DIR python -m pytest tests/domains/hub
set -euo pipefail
mkdir -p "$1"
out=$(cd "$1" && pwd)
hub=${2:-}
etcd=v3.6.5 kubernetes=1.34.4 kubefleet=e160c1cdfdd9 checkout=
[ "$hub" != hub ] || checkout=${3:+$(cd "$3" && pwd)}
[ "$hub" != pods ] || kubernetes=${3:-$kubernetes}
work=$(mktemp -d)
new=$(mktemp -d "$out/.new.XXXX") # who finds a program in DIR finds the whole of it
trap 'rm -rf "$work" "$new"' EXIT

mkdir "$work/etcd" && cd "$work/etcd"
cat > main.go <<'GO'
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
GO
go mod init hub.test/etcd >/dev/null 2>&1
go get "go.etcd.io/etcd/server/v3@$etcd" >/dev/null 2>&1
go mod tidy >/dev/null 2>&1
# Separate commands: a failed build on the left of && would not end the script.
go build -o "$new/" .
mv "$new/etcd" "$out/"

mkdir "$work/kube" && cd "$work/kube"
printf 'module hub.test/kube\n\ngo 1.24.0\n' > go.mod
source=$(go mod download -json "k8s.io/kubernetes@v$kubernetes" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
{
    printf 'module hub.test/kube\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$kubernetes"
    sed -n 's|^\t*\(k8s.io/[^ ]*\) => ./staging.*|\1|p' "$source/go.mod" | sort -u \
        | while read -r name; do printf '\t%s => %s v0.%s\n' "$name" "$name" "${kubernetes#1.}"; done
    printf ')\n'
} > go.mod
build() { # program, the constructor of its command
    mkdir "$1"
    cat > "$1/main.go" <<GO
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/$1/app"
)

func main() { os.Exit(cli.Run(app.$2())) }
GO
}
build kube-apiserver NewAPIServerCommand
programs=(kube-apiserver)
if [ -n "$hub" ]; then
    build kube-controller-manager NewControllerManagerCommand
    programs+=(kube-controller-manager)
fi
if [ "$hub" = pods ]; then
    build kube-scheduler NewSchedulerCommand
    programs+=(kube-scheduler)
fi
go mod tidy >/dev/null 2>&1
version="-X k8s.io/component-base/version.gitVersion=v$kubernetes"
go build -trimpath -ldflags "-s -w $version" -o "$new/" "${programs[@]/#/./}"
mv "$new"/* "$out/"
[ "$hub" = hub ] || exit 0

mkdir "$work/fleet" && cd "$work/fleet"
module=github.com/kubefleet-dev/kubefleet
if [ -n "$checkout" ]; then
    source=$checkout
    # The version that Go gives to a commit without a tag: the program's build information names it.
    exact=$(TZ=UTC git -C "$source" log -1 --abbrev=12 --date=format-local:%Y%m%d%H%M%S --format=v0.0.0-%cd-%h 2> /dev/null) \
        || exact=v0.0.0
    printf 'module hub.test/fleet\n\nrequire %s %s\n\nreplace %s => %s\n' "$module" "$exact" "$module" "$source" > go.mod
elif found=$(go mod download -json "$module@$kubefleet" 2> "$work/why"); then
    source=$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<< "$found")
    exact=$(sed -n 's/.*"Version": "\(.*\)".*/\1/p' <<< "$found")
    printf 'module hub.test/fleet\n\nrequire %s %s\n' "$module" "$exact" > go.mod
else
    echo "etcd and the servers of Kubernetes are in $out. The hub agent is not: Go finds no $module@$kubefleet" >&2
    sed -n 's/.*"Error": "\(.*\)".*/\1/p' <<< "$found" >&2
    echo "Give a checkout of it: build_hub.sh $1 hub CHECKOUT" >&2
    exit 1
fi
# What KubeFleet replaces holds for its own builds alone, so it is repeated here.
sed -n '/^go /p; /^toolchain /p; /^replace (/,/^)/p; /^replace [^(]/p' "$source/go.mod" >> go.mod
cp "$source/go.sum" .
go build -mod=mod -trimpath -ldflags "-s -w" -o "$out/" "$module/cmd/hubagent"
