// Reads a placement with its bindings, perhaps its disruption budget, and an eviction as lines of JSON, and writes
// whether KubeFleet's controller of evictions executes it, with its message.
package main

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"judge.test/kubefleet/lines"

	placement "github.com/kubefleet-dev/kubefleet/apis/placement/v1beta1"
	eviction "github.com/kubefleet-dev/kubefleet/pkg/controllers/clusterresourceplacementeviction"
)

type request struct {
	Placement placement.ClusterResourcePlacement
	Bindings  []*placement.ClusterResourceBinding
	Budget    *placement.ClusterResourcePlacementDisruptionBudget
	Eviction  placement.ClusterResourcePlacementEviction
}

type answer struct {
	Executed bool   `json:"executed"`
	Message  string `json:"message"`
}

func decide(asked *request) answer {
	ctx := context.Background()
	objects := []client.Object{&asked.Placement, &asked.Eviction}
	for _, binding := range asked.Bindings {
		objects = append(objects, binding)
	}
	if asked.Budget != nil {
		objects = append(objects, asked.Budget)
	}
	server := fake.NewClientBuilder().WithScheme(lines.BuildScheme()).WithObjects(objects...).
		WithStatusSubresource(&placement.ClusterResourcePlacementEviction{}).Build()
	controller := &eviction.Reconciler{Client: server, UncachedReader: server}
	name := types.NamespacedName{Name: asked.Eviction.Name}
	_, err := controller.Reconcile(ctx, controllerruntime.Request{NamespacedName: name})
	lines.Require(err)
	var done placement.ClusterResourcePlacementEviction
	lines.Require(server.Get(ctx, name, &done))
	told := answer{}
	for _, condition := range done.Status.Conditions {
		// The last one, Executed, unless the eviction is invalid.
		told = answer{condition.Type == "Executed" && condition.Status == "True", condition.Message}
	}
	return told
}

func main() { lines.Answer(decide) }
