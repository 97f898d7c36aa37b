resource "nexus_site" "s" {}

resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = 2
}

resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.s.id

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "np" {
    count       = 2
    vm_sku_name = "NC_G6_28_v1"
  }
}

resource "fleet_hub_manifest" "rules" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: v1
    kind: ResourceQuota
    metadata: {name: q, namespace: default}
    spec: {hard: {pods: "6"}}
    ---
    apiVersion: v1
    kind: LimitRange
    metadata: {name: l, namespace: default}
    spec:
      limits:
        - type: Container
          max: {cpu: "2"}
    ---
    apiVersion: autoscaling/v2
    kind: HorizontalPodAutoscaler
    metadata: {name: web, namespace: default}
    spec:
      scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
      minReplicas: 1
      maxReplicas: 2
  EOT
}

resource "fleet_hub_manifest" "pods" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, namespace: default}
    spec:
      replicas: 4
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "500m"}}
    ---
    apiVersion: v1
    kind: ReplicationController
    metadata: {name: old, namespace: default}
    spec:
      replicas: 2
      selector: {app: old}
      template:
        metadata: {labels: {app: old}}
        spec:
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "500m"}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: large, namespace: default}
    spec:
      replicas: 1
      selector: {matchLabels: {app: large}}
      template:
        metadata: {labels: {app: large}}
        spec:
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "3"}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: gated, namespace: default}
    spec:
      replicas: 1
      selector: {matchLabels: {app: gated}}
      template:
        metadata: {labels: {app: gated}}
        spec:
          schedulingGates: [{name: example.com/g}]
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "500m"}}
    ---
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: fixed, namespace: default}
    spec:
      replicas: 1
      selector: {matchLabels: {app: fixed}}
      template:
        metadata: {labels: {app: fixed}}
        spec:
          nodeName: a-np-9
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "500m"}}
  EOT
}
