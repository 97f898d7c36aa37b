// Reads a staged run with its strategy, placement, snapshots, bindings and members as lines of JSON. KubeFleet's
// controller of runs acts until nothing changes, while listed members get ready and listed requests are approved.
// Writes the bindings and the last conditions of the run. build_judge.sh compiles it with the controller's source.
package main

import (
	"context"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"judge.test/kubefleet/lines"

	cluster "github.com/kubefleet-dev/kubefleet/apis/cluster/v1beta1"
	placement "github.com/kubefleet-dev/kubefleet/apis/placement/v1beta1"
	fakeinformer "github.com/kubefleet-dev/kubefleet/test/utils/informer"
)

type question struct {
	Placement placement.ClusterResourcePlacement
	Policy    placement.ClusterSchedulingPolicySnapshot
	Snapshots []*placement.ClusterResourceSnapshot
	Strategy  placement.ClusterStagedUpdateStrategy
	Run       placement.ClusterStagedUpdateRun
	Bindings  []*placement.ClusterResourceBinding
	Members   []*cluster.MemberCluster
	// Members that get available, and members that report a failure. Others never answer.
	Ready, Failing []string
	Approved       []string
}

type answer struct {
	// The state and the resource snapshot by cluster.
	Bindings   map[string][2]string `json:"bindings"`
	Conditions map[string]string    `json:"conditions"`
	Message    string               `json:"message"`
}

// countGenerations raises the generation of a binding whose specification changes, as an API server does.
func countGenerations(ctx context.Context, server client.WithWatch, changed client.Object, options ...client.UpdateOption) error {
	if binding, ok := changed.(*placement.ClusterResourceBinding); ok {
		var before placement.ClusterResourceBinding
		lines.Require(server.Get(ctx, client.ObjectKeyFromObject(binding), &before))
		if !reflect.DeepEqual(before.Spec, binding.Spec) {
			binding.Generation++
		}
	}
	return server.Update(ctx, changed, options...)
}

// answerBinding reports what a member does with a binding of its present generation.
func answerBinding(ctx context.Context, server client.Client, asked *question, binding *placement.ClusterResourceBinding) {
	started := meta.FindStatusCondition(binding.Status.Conditions, "RolloutStarted")
	if started == nil || started.Status != metav1.ConditionTrue || started.ObservedGeneration != binding.Generation {
		return
	}
	report := func(kind string, status metav1.ConditionStatus, reason string) {
		binding.SetConditions(metav1.Condition{
			Type: kind, Status: status, Reason: reason, ObservedGeneration: binding.Generation})
	}
	switch {
	case slices.Contains(asked.Ready, binding.Spec.TargetCluster):
		report("Applied", metav1.ConditionTrue, "AllWorkHaveBeenApplied")
		report("Available", metav1.ConditionTrue, "AllWorkAreAvailable")
	case slices.Contains(asked.Failing, binding.Spec.TargetCluster):
		report("Applied", metav1.ConditionFalse, "NotAllWorkHaveBeenApplied")
	}
	lines.Require(server.Status().Update(ctx, binding))
}

func decide(asked *question) answer {
	ctx := context.Background()
	for i := range asked.Strategy.Spec.Stages {
		stage := &asked.Strategy.Spec.Stages[i]
		// The API server's default.
		if stage.MaxConcurrency == nil {
			one := intstr.FromInt32(1)
			stage.MaxConcurrency = &one
		}
		// All waits pass at once.
		for j := range stage.AfterStageTasks {
			if stage.AfterStageTasks[j].WaitTime != nil {
				stage.AfterStageTasks[j].WaitTime.Duration = time.Nanosecond
			}
		}
	}
	objects := []client.Object{&asked.Placement, &asked.Policy, &asked.Strategy, &asked.Run}
	for _, snapshot := range asked.Snapshots {
		objects = append(objects, snapshot)
	}
	for _, binding := range asked.Bindings {
		objects = append(objects, binding)
	}
	for _, member := range asked.Members {
		objects = append(objects, member)
	}
	server := fake.NewClientBuilder().WithScheme(lines.BuildScheme()).WithObjects(objects...).
		WithStatusSubresource(&asked.Run, &placement.ClusterResourceBinding{}, &placement.ClusterApprovalRequest{}).
		WithInterceptorFuncs(interceptor.Funcs{Update: countGenerations}).Build()
	controller := &Reconciler{
		Client: server, recorder: &record.FakeRecorder{},
		InformerManager: &fakeinformer.FakeManager{IsClusterScopedResource: true},
	}
	// Each pass makes one step at most, and no drawn run has so many.
	for pass := 0; pass < 100; pass++ {
		// A retried error is a pass without a step.
		_, _ = controller.Reconcile(ctx, controllerruntime.Request{NamespacedName: client.ObjectKeyFromObject(&asked.Run)})
		var bindings placement.ClusterResourceBindingList
		lines.Require(server.List(ctx, &bindings))
		for i := range bindings.Items {
			answerBinding(ctx, server, asked, &bindings.Items[i])
		}
		var requests placement.ClusterApprovalRequestList
		lines.Require(server.List(ctx, &requests))
		for i := range requests.Items {
			if request := &requests.Items[i]; slices.Contains(asked.Approved, request.Name) {
				request.SetConditions(metav1.Condition{Type: "Approved", Status: metav1.ConditionTrue, Reason: "Approved"})
				lines.Require(server.Status().Update(ctx, request))
			}
		}
	}
	told := answer{Bindings: map[string][2]string{}, Conditions: map[string]string{}}
	var bindings placement.ClusterResourceBindingList
	lines.Require(server.List(ctx, &bindings))
	for _, binding := range bindings.Items {
		told.Bindings[binding.Spec.TargetCluster] = [2]string{
			string(binding.Spec.State), binding.Spec.ResourceSnapshotName}
	}
	var run placement.ClusterStagedUpdateRun
	lines.Require(server.Get(ctx, client.ObjectKeyFromObject(&asked.Run), &run))
	for _, condition := range run.Status.Conditions {
		told.Conditions[condition.Type] = string(condition.Status)
		if condition.Status == metav1.ConditionFalse {
			told.Message = condition.Message
		}
	}
	return told
}

func main() { lines.Answer(decide) }
