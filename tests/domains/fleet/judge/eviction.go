// Reads a placement with its bindings, perhaps its disruption budget, and an eviction as lines of JSON, and writes
// whether KubeFleet's controller of evictions executes it, with its message.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

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

func require(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	scheme := runtime.NewScheme()
	require(placement.AddToScheme(scheme))
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	ctx := context.Background()
	for lines.Scan() {
		var asked request
		require(json.Unmarshal(lines.Bytes(), &asked))
		objects := []client.Object{&asked.Placement, &asked.Eviction}
		for _, binding := range asked.Bindings {
			objects = append(objects, binding)
		}
		if asked.Budget != nil {
			objects = append(objects, asked.Budget)
		}
		server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
			WithStatusSubresource(&placement.ClusterResourcePlacementEviction{}).Build()
		controller := &eviction.Reconciler{Client: server, UncachedReader: server}
		name := types.NamespacedName{Name: asked.Eviction.Name}
		_, err := controller.Reconcile(ctx, controllerruntime.Request{NamespacedName: name})
		require(err)
		var done placement.ClusterResourcePlacementEviction
		require(server.Get(ctx, name, &done))
		told := answer{}
		for _, condition := range done.Status.Conditions {
			// The last one, Executed, unless the eviction is invalid.
			told = answer{condition.Type == "Executed" && condition.Status == "True", condition.Message}
		}
		require(answers.Encode(told))
	}
}
