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


# A placement of a namespace; NAME and POLICY are replaced.
PLACEMENT = """
resource "fleet_cluster_resource_placement" "NAME" {
  name = "NAME"
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "NAME"
  }
  policy {
    POLICY
  }
  depends_on = [fleet_hub_manifest.NAME]
}
"""
# A member on a cluster of the site `lab`; NAME, COUNT and MORE (further pools) are replaced.
MEMBER = """
resource "nexus_kubernetes_cluster" "NAME" {
  name    = "NAME"
  site_id = nexus_site.lab.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  MORE
  agent_pool "workers" {
    count       = COUNT
    vm_sku_name = "NC_P10_56_v1"
  }
  depends_on = [nexus_rack.rack]
}
resource "fleet_member_cluster" "NAME" {
  name                  = "NAME"
  kubernetes_cluster_id = nexus_kubernetes_cluster.NAME.id
}
"""
