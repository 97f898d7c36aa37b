// Package lines answers questions that are lines of JSON, each with a line of JSON.
package lines

import (
	"bufio"
	"encoding/json"
	"os"

	"k8s.io/apimachinery/pkg/runtime"

	cluster "github.com/kubefleet-dev/kubefleet/apis/cluster/v1beta1"
	placement "github.com/kubefleet-dev/kubefleet/apis/placement/v1beta1"
)

// Require stops the program on an error.
func Require(err error) {
	if err != nil {
		panic(err)
	}
}

// BuildScheme returns a scheme with the kinds of a hub.
func BuildScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	Require(placement.AddToScheme(scheme))
	Require(cluster.AddToScheme(scheme))
	return scheme
}

// Answer writes what decide returns for each question on standard input.
func Answer[Question, Told any](decide func(*Question) Told) {
	questions := bufio.NewScanner(os.Stdin)
	questions.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	for questions.Scan() {
		question := new(Question)
		Require(json.Unmarshal(questions.Bytes(), question))
		Require(answers.Encode(decide(question)))
	}
	Require(questions.Err())
}
