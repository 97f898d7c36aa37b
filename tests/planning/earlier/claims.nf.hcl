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

resource "fleet_hub_manifest" "storage" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: local}
    provisioner: kubernetes.io/no-provisioner
    volumeBindingMode: WaitForFirstConsumer
    ---
    apiVersion: v1
    kind: PersistentVolume
    metadata: {name: v0}
    spec:
      capacity: {storage: 10Gi}
      accessModes: [ReadWriteOnce]
      storageClassName: local
      nodeAffinity:
        required:
          nodeSelectorTerms:
            - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [a-np-0]}]
    ---
    apiVersion: v1
    kind: PersistentVolume
    metadata: {name: w0}
    spec:
      capacity: {storage: 10Gi}
      accessModes: [ReadWriteOnce]
      storageClassName: bare
      nodeAffinity:
        required:
          nodeSelectorTerms:
            - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [a-np-9]}]
    ---
    apiVersion: v1
    kind: PersistentVolume
    metadata: {name: w1}
    spec:
      capacity: {storage: 20Gi}
      accessModes: [ReadWriteOnce]
      storageClassName: bare
      claimRef: {namespace: default, name: data-log-0}
  EOT
}

resource "fleet_hub_manifest" "pods" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = <<-EOT
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: db, namespace: default}
    spec:
      replicas: 3
      selector: {matchLabels: {app: db}}
      serviceName: db
      volumeClaimTemplates:
        - metadata: {name: data}
          spec:
            accessModes: [ReadWriteOnce]
            storageClassName: local
            resources: {requests: {storage: 5Gi}}
      template:
        metadata: {labels: {app: db}}
        spec:
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "1500m"}}
    ---
    apiVersion: apps/v1
    kind: StatefulSet
    metadata: {name: log, namespace: default}
    spec:
      replicas: 1
      selector: {matchLabels: {app: log}}
      serviceName: log
      volumeClaimTemplates:
        - metadata: {name: data}
          spec:
            accessModes: [ReadWriteOnce]
            storageClassName: bare
            resources: {requests: {storage: 5Gi}}
      template:
        metadata: {labels: {app: log}}
        spec:
          containers:
            - name: c
              image: i
              resources: {requests: {cpu: "500m"}}
  EOT
}
