// Reads members, a placement, its last policy snapshot and its bindings as lines of JSON. Runs the cycles of
// KubeFleet's scheduler until none follows, and writes the bindings, the decisions and the Scheduled condition.
package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"judge.test/kubefleet/lines"

	cluster "github.com/kubefleet-dev/kubefleet/apis/cluster/v1beta1"
	placement "github.com/kubefleet-dev/kubefleet/apis/placement/v1beta1"
	"github.com/kubefleet-dev/kubefleet/pkg/scheduler/framework"
	"github.com/kubefleet-dev/kubefleet/pkg/scheduler/profile"
	"github.com/kubefleet-dev/kubefleet/pkg/scheduler/queue"
	"github.com/kubefleet-dev/kubefleet/pkg/utils/defaulter"
	"github.com/kubefleet-dev/kubefleet/pkg/utils/resource"
)

type question struct {
	Placement placement.ClusterResourcePlacement
	Snapshot  placement.ClusterSchedulingPolicySnapshot
	Members   []*cluster.MemberCluster
	Bindings  []*placement.ClusterResourceBinding
}

type bound struct {
	State    string `json:"state"`
	Snapshot string `json:"snapshot"`
	Affinity *int32 `json:"affinity"`
	Spread   *int32 `json:"spread"`
}

type answer struct {
	// Of the policy in the last snapshot.
	Hash      string            `json:"hash"`
	Bindings  map[string]bound  `json:"bindings"`
	Failure   string            `json:"failure"`
	Scheduled string            `json:"scheduled"`
	Rejected  map[string]string `json:"rejected"`
}

// manager is what the scheduler asks of one.
type manager struct {
	controllerruntime.Manager
	server client.Client
}

func (m *manager) GetClient() client.Client                        { return m.server }
func (m *manager) GetAPIReader() client.Reader                     { return m.server }
func (m *manager) GetEventRecorderFor(string) record.EventRecorder { return &record.FakeRecorder{} }

// moveTimes moves all times of members, so that the newest heartbeat is now.
func moveTimes(members []*cluster.MemberCluster) {
	var newest time.Time
	for _, member := range members {
		for _, agent := range member.Status.AgentStatus {
			if agent.LastReceivedHeartbeat.After(newest) {
				newest = agent.LastReceivedHeartbeat.Time
			}
		}
	}
	gap := time.Since(newest)
	for _, member := range members {
		for i := range member.Status.AgentStatus {
			agent := &member.Status.AgentStatus[i]
			agent.LastReceivedHeartbeat.Time = agent.LastReceivedHeartbeat.Add(gap)
			for j := range agent.Conditions {
				changed := &agent.Conditions[j].LastTransitionTime
				changed.Time = changed.Add(gap)
			}
		}
	}
}

// buildSnapshot returns the snapshot that the placement controller makes of a policy after the previous one.
func buildSnapshot(asked *question) *placement.ClusterSchedulingPolicySnapshot {
	policy := readPolicy(&asked.Placement, asked.Placement.Spec.Policy)
	number := asked.Placement.Spec.Policy.NumberOfClusters
	index, err := strconv.Atoi(asked.Snapshot.Labels[placement.PolicyIndexLabel])
	lines.Require(err)
	if computeHash(readPolicy(&asked.Placement, asked.Snapshot.Spec.Policy)) != computeHash(policy) {
		index++
	}
	snapshot := &placement.ClusterSchedulingPolicySnapshot{}
	snapshot.Name = fmt.Sprintf("%s-%d", asked.Placement.Name, index)
	snapshot.Labels = map[string]string{
		placement.PlacementTrackingLabel: asked.Placement.Name,
		placement.IsLatestSnapshotLabel:  "true",
		placement.PolicyIndexLabel:       strconv.Itoa(index),
	}
	snapshot.Annotations = map[string]string{placement.CRPGenerationAnnotation: "2"}
	if number != nil {
		snapshot.Annotations[placement.NumberOfClustersAnnotation] = strconv.Itoa(int(*number))
	}
	snapshot.Spec.Policy = policy
	return snapshot
}

// readPolicy returns a policy of a placement with its defaults and without the number of clusters, as in a hash.
func readPolicy(owner *placement.ClusterResourcePlacement, policy *placement.PlacementPolicy) *placement.PlacementPolicy {
	stored := owner.DeepCopy()
	stored.Spec.Policy = policy.DeepCopy()
	defaulter.SetPlacementDefaults(stored)
	stored.Spec.Policy.NumberOfClusters = nil
	return stored.Spec.Policy
}

func computeHash(policy *placement.PlacementPolicy) string {
	hash, err := resource.HashOf(policy)
	lines.Require(err)
	return hash
}

func decide(asked *question) answer {
	ctx := context.Background()
	moveTimes(asked.Members)
	snapshot := buildSnapshot(asked)
	objects := []client.Object{snapshot}
	for _, member := range asked.Members {
		objects = append(objects, member)
	}
	for _, binding := range asked.Bindings {
		objects = append(objects, binding)
	}
	server := fake.NewClientBuilder().WithScheme(lines.BuildScheme()).WithObjects(objects...).
		WithStatusSubresource(snapshot).Build()
	scheduler := framework.NewFramework(profile.NewDefaultProfile(), &manager{server: server})
	told := answer{
		Hash:     computeHash(readPolicy(&asked.Placement, asked.Snapshot.Spec.Policy)),
		Bindings: map[string]bound{}, Rejected: map[string]string{},
	}
	for {
		lines.Require(server.Get(ctx, client.ObjectKeyFromObject(snapshot), snapshot))
		result, err := scheduler.RunSchedulingCycleFor(ctx, queue.PlacementKey(asked.Placement.Name), snapshot)
		if err != nil {
			told.Failure = err.Error()
		}
		if err != nil || !result.Requeue && result.RequeueAfter == 0 {
			break
		}
	}
	var bindings placement.ClusterResourceBindingList
	lines.Require(server.List(ctx, &bindings))
	for _, binding := range bindings.Items {
		one := bound{State: string(binding.Spec.State), Snapshot: binding.Spec.SchedulingPolicySnapshotName}
		if scores := binding.Spec.ClusterDecision.ClusterScore; scores != nil {
			one.Affinity, one.Spread = scores.AffinityScore, scores.TopologySpreadScore
		}
		told.Bindings[binding.Spec.TargetCluster] = one
	}
	lines.Require(server.Get(ctx, client.ObjectKeyFromObject(snapshot), snapshot))
	for _, decision := range snapshot.Status.ClusterDecisions {
		if !decision.Selected {
			told.Rejected[decision.ClusterName] = decision.Reason
		}
	}
	if condition := meta.FindStatusCondition(snapshot.Status.Conditions, "Scheduled"); condition != nil {
		told.Scheduled = condition.Message
	}
	return told
}

func main() { lines.Answer(decide) }
