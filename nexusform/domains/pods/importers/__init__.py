"""Manifests of Kubernetes: what they say, what the API server refuses, and which pods and nodes they mean."""
