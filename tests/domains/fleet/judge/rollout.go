// Reads placements with their bindings as lines of JSON, and writes the names of the bindings that one pass of
// KubeFleet's rollout controller deletes, updates and binds. build_judge.sh compiles it with the controller's source.
package main

import (
	"context"

	"judge.test/kubefleet/lines"

	placement "github.com/kubefleet-dev/kubefleet/apis/placement/v1beta1"
	"github.com/kubefleet-dev/kubefleet/pkg/utils/defaulter"
)

type request struct {
	Placement placement.ClusterResourcePlacement
	Snapshot  placement.ClusterResourceSnapshot
	Bindings  []*placement.ClusterResourceBinding
}

type answer struct {
	Deleted []string `json:"deleted"`
	Updated []string `json:"updated"`
	Bound   []string `json:"bound"`
}

func decide(asked *request) answer {
	defaulter.SetPlacementDefaults(&asked.Placement)
	var bindings []placement.BindingObj
	for _, binding := range asked.Bindings {
		bindings = append(bindings, binding)
	}
	picked, _, _, _, _, err := (&Reconciler{}).pickBindingsToRoll(
		context.Background(), bindings, &asked.Snapshot, &asked.Placement, nil, nil)
	lines.Require(err)
	told := answer{[]string{}, []string{}, []string{}}
	for _, one := range picked {
		spec := one.currentBinding.GetBindingSpec()
		switch spec.State {
		case placement.BindingStateUnscheduled:
			told.Deleted = append(told.Deleted, spec.TargetCluster)
		case placement.BindingStateBound:
			told.Updated = append(told.Updated, spec.TargetCluster)
		case placement.BindingStateScheduled:
			told.Bound = append(told.Bound, spec.TargetCluster)
		}
	}
	return told
}

func main() { lines.Answer(decide) }
