"""Workloads as text, for templatefile() and for tests."""

from __future__ import annotations

DEPLOYMENT = """apiVersion: v1
kind: Namespace
metadata:
  name: ${name}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: api
  namespace: ${name}
spec:
  replicas: ${replicas}
  selector:
    matchLabels: {app: api}
  template:
    metadata:
      labels: {app: api}
    spec:
      containers:
        - name: api
          image: registry.example.com/api:1
          resources:
            requests: {cpu: "${cpu}", memory: 1Gi}
"""


def build_deployment(name: str, replicas: int, cpu: int) -> str:
    """Build a namespace with one Deployment."""
    text = DEPLOYMENT.replace("${name}", name)
    return text.replace("${replicas}", str(replicas)).replace("${cpu}", str(cpu))
