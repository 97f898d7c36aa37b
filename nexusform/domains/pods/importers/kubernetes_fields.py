"""The fields of Kubernetes' kinds and what each holds. Made by packaging/kubernetes_fields.py.

s a text, i a whole number, n a number, b true or false, q a quantity, x a whole number or a text, a anything;
[ a list of it, { a mapping to it; anything else is a type of the table. What a server sets is anything.
Source: the OpenAPI document of Kubernetes, by lightkube-models 1.37.0.8.
"""

from typing import Final

VERSION: Final = "1.37"
KINDS: Final = """\
admissionregistration.k8s.io/v1 MutatingAdmissionPolicy admissionregistration_v1.MutatingAdmissionPolicy
admissionregistration.k8s.io/v1 MutatingAdmissionPolicyBinding admissionregistration_v1.MutatingAdmissionPolicyBinding
admissionregistration.k8s.io/v1 MutatingWebhookConfiguration admissionregistration_v1.MutatingWebhookConfiguration
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy admissionregistration_v1.ValidatingAdmissionPolicy
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding admissionregistration_v1.ValidatingAdmissionPolicyBinding
admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration admissionregistration_v1.ValidatingWebhookConfiguration
apps/v1 ControllerRevision apps_v1.ControllerRevision
apps/v1 DaemonSet apps_v1.DaemonSet
apps/v1 Deployment apps_v1.Deployment
apps/v1 ReplicaSet apps_v1.ReplicaSet
apps/v1 StatefulSet apps_v1.StatefulSet
autoscaling/v1 HorizontalPodAutoscaler autoscaling_v1.HorizontalPodAutoscaler
autoscaling/v1 Scale autoscaling_v1.Scale
autoscaling/v2 HorizontalPodAutoscaler autoscaling_v2.HorizontalPodAutoscaler
batch/v1 CronJob batch_v1.CronJob
batch/v1 Job batch_v1.Job
certificates.k8s.io/v1 CertificateSigningRequest certificates_v1.CertificateSigningRequest
certificates.k8s.io/v1 ClusterTrustBundle certificates_v1.ClusterTrustBundle
certificates.k8s.io/v1 PodCertificateRequest certificates_v1.PodCertificateRequest
coordination.k8s.io/v1 Lease coordination_v1.Lease
discovery.k8s.io/v1 EndpointSlice discovery_v1.EndpointSlice
events.k8s.io/v1 Event events_v1.Event
flowcontrol.apiserver.k8s.io/v1 FlowSchema flowcontrol_v1.FlowSchema
flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration flowcontrol_v1.PriorityLevelConfiguration
networking.k8s.io/v1 IPAddress networking_v1.IPAddress
networking.k8s.io/v1 Ingress networking_v1.Ingress
networking.k8s.io/v1 IngressClass networking_v1.IngressClass
networking.k8s.io/v1 NetworkPolicy networking_v1.NetworkPolicy
networking.k8s.io/v1 ServiceCIDR networking_v1.ServiceCIDR
node.k8s.io/v1 RuntimeClass node_v1.RuntimeClass
policy/v1 Eviction policy_v1.Eviction
policy/v1 PodDisruptionBudget policy_v1.PodDisruptionBudget
rbac.authorization.k8s.io/v1 ClusterRole rbac_v1.ClusterRole
rbac.authorization.k8s.io/v1 ClusterRoleBinding rbac_v1.ClusterRoleBinding
rbac.authorization.k8s.io/v1 Role rbac_v1.Role
rbac.authorization.k8s.io/v1 RoleBinding rbac_v1.RoleBinding
resource.k8s.io/v1 DeviceClass resource_v1.DeviceClass
resource.k8s.io/v1 DeviceTaintRule resource_v1.DeviceTaintRule
resource.k8s.io/v1 ResourceClaim resource_v1.ResourceClaim
resource.k8s.io/v1 ResourceClaimTemplate resource_v1.ResourceClaimTemplate
resource.k8s.io/v1 ResourceSlice resource_v1.ResourceSlice
scheduling.k8s.io/v1 PriorityClass scheduling_v1.PriorityClass
storage.k8s.io/v1 CSIDriver storage_v1.CSIDriver
storage.k8s.io/v1 CSINode storage_v1.CSINode
storage.k8s.io/v1 CSIStorageCapacity storage_v1.CSIStorageCapacity
storage.k8s.io/v1 StorageClass storage_v1.StorageClass
storage.k8s.io/v1 VolumeAttachment storage_v1.VolumeAttachment
storage.k8s.io/v1 VolumeAttributesClass storage_v1.VolumeAttributesClass
storagemigration.k8s.io/v1 StorageVersionMigration storagemigration_v1.StorageVersionMigration
v1 Binding core_v1.Binding
v1 ComponentStatus core_v1.ComponentStatus
v1 ConfigMap core_v1.ConfigMap
v1 Endpoints core_v1.Endpoints
v1 Event core_v1.Event
v1 LimitRange core_v1.LimitRange
v1 Namespace core_v1.Namespace
v1 Node core_v1.Node
v1 PersistentVolume core_v1.PersistentVolume
v1 PersistentVolumeClaim core_v1.PersistentVolumeClaim
v1 Pod core_v1.Pod
v1 PodTemplate core_v1.PodTemplate
v1 ReplicationController core_v1.ReplicationController
v1 ResourceQuota core_v1.ResourceQuota
v1 Secret core_v1.Secret
v1 Service core_v1.Service
v1 ServiceAccount core_v1.ServiceAccount
"""
TYPES: Final = """\
admissionregistration_v1.ApplyConfiguration expression=s
admissionregistration_v1.AuditAnnotation key=s valueExpression=s
admissionregistration_v1.JSONPatch expression=s
admissionregistration_v1.MatchCondition expression=s name=s
admissionregistration_v1.MatchResources excludeResourceRules=[admissionregistration_v1.NamedRuleWithOperations matchPolicy=s namespaceSelector=meta_v1.LabelSelector objectSelector=meta_v1.LabelSelector resourceRules=[admissionregistration_v1.NamedRuleWithOperations
admissionregistration_v1.MutatingAdmissionPolicy apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=admissionregistration_v1.MutatingAdmissionPolicySpec
admissionregistration_v1.MutatingAdmissionPolicyBinding apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=admissionregistration_v1.MutatingAdmissionPolicyBindingSpec
admissionregistration_v1.MutatingAdmissionPolicyBindingSpec matchResources=admissionregistration_v1.MatchResources paramRef=admissionregistration_v1.ParamRef policyName=s
admissionregistration_v1.MutatingAdmissionPolicySpec failurePolicy=s matchConditions=[admissionregistration_v1.MatchCondition matchConstraints=admissionregistration_v1.MatchResources mutations=[admissionregistration_v1.Mutation paramKind=admissionregistration_v1.ParamKind reinvocationPolicy=s variables=[admissionregistration_v1.Variable
admissionregistration_v1.MutatingWebhook admissionReviewVersions=[s clientConfig=admissionregistration_v1.WebhookClientConfig failurePolicy=s matchConditions=[admissionregistration_v1.MatchCondition matchPolicy=s name=s namespaceSelector=meta_v1.LabelSelector objectSelector=meta_v1.LabelSelector reinvocationPolicy=s rules=[admissionregistration_v1.RuleWithOperations sideEffects=s timeoutSeconds=i
admissionregistration_v1.MutatingWebhookConfiguration apiVersion=s kind=s metadata=meta_v1.ObjectMeta webhooks=[admissionregistration_v1.MutatingWebhook
admissionregistration_v1.Mutation applyConfiguration=admissionregistration_v1.ApplyConfiguration jsonPatch=admissionregistration_v1.JSONPatch patchType=s
admissionregistration_v1.NamedRuleWithOperations apiGroups=[s apiVersions=[s operations=[s resourceNames=[s resources=[s scope=s
admissionregistration_v1.ParamKind apiVersion=s kind=s
admissionregistration_v1.ParamRef name=s namespace=s parameterNotFoundAction=s selector=meta_v1.LabelSelector
admissionregistration_v1.RuleWithOperations apiGroups=[s apiVersions=[s operations=[s resources=[s scope=s
admissionregistration_v1.ServiceReference name=s namespace=s path=s port=i
admissionregistration_v1.ValidatingAdmissionPolicy apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=admissionregistration_v1.ValidatingAdmissionPolicySpec status=a
admissionregistration_v1.ValidatingAdmissionPolicyBinding apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=admissionregistration_v1.ValidatingAdmissionPolicyBindingSpec
admissionregistration_v1.ValidatingAdmissionPolicyBindingSpec matchResources=admissionregistration_v1.MatchResources paramRef=admissionregistration_v1.ParamRef policyName=s validationActions=[s
admissionregistration_v1.ValidatingAdmissionPolicySpec auditAnnotations=[admissionregistration_v1.AuditAnnotation failurePolicy=s matchConditions=[admissionregistration_v1.MatchCondition matchConstraints=admissionregistration_v1.MatchResources paramKind=admissionregistration_v1.ParamKind validations=[admissionregistration_v1.Validation variables=[admissionregistration_v1.Variable
admissionregistration_v1.ValidatingWebhook admissionReviewVersions=[s clientConfig=admissionregistration_v1.WebhookClientConfig failurePolicy=s matchConditions=[admissionregistration_v1.MatchCondition matchPolicy=s name=s namespaceSelector=meta_v1.LabelSelector objectSelector=meta_v1.LabelSelector rules=[admissionregistration_v1.RuleWithOperations sideEffects=s timeoutSeconds=i
admissionregistration_v1.ValidatingWebhookConfiguration apiVersion=s kind=s metadata=meta_v1.ObjectMeta webhooks=[admissionregistration_v1.ValidatingWebhook
admissionregistration_v1.Validation expression=s message=s messageExpression=s reason=s
admissionregistration_v1.Variable expression=s name=s
admissionregistration_v1.WebhookClientConfig caBundle=s service=admissionregistration_v1.ServiceReference url=s
apps_v1.ControllerRevision apiVersion=s data=a kind=s metadata=meta_v1.ObjectMeta revision=i
apps_v1.DaemonSet apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=apps_v1.DaemonSetSpec status=a
apps_v1.DaemonSetSpec minReadySeconds=i revisionHistoryLimit=i selector=meta_v1.LabelSelector template=core_v1.PodTemplateSpec updateStrategy=apps_v1.DaemonSetUpdateStrategy
apps_v1.DaemonSetUpdateStrategy rollingUpdate=apps_v1.RollingUpdateDaemonSet type=s
apps_v1.Deployment apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=apps_v1.DeploymentSpec status=a
apps_v1.DeploymentSpec minReadySeconds=i paused=b progressDeadlineSeconds=i replicas=i revisionHistoryLimit=i selector=meta_v1.LabelSelector strategy=apps_v1.DeploymentStrategy template=core_v1.PodTemplateSpec
apps_v1.DeploymentStrategy rollingUpdate=apps_v1.RollingUpdateDeployment type=s
apps_v1.ReplicaSet apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=apps_v1.ReplicaSetSpec status=a
apps_v1.ReplicaSetSpec minReadySeconds=i replicas=i selector=meta_v1.LabelSelector template=core_v1.PodTemplateSpec
apps_v1.RollingUpdateDaemonSet maxSurge=x maxUnavailable=x
apps_v1.RollingUpdateDeployment maxSurge=x maxUnavailable=x
apps_v1.RollingUpdateStatefulSetStrategy maxUnavailable=x partition=i
apps_v1.StatefulSet apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=apps_v1.StatefulSetSpec status=a
apps_v1.StatefulSetOrdinals start=i
apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted=s whenScaled=s
apps_v1.StatefulSetSpec minReadySeconds=i ordinals=apps_v1.StatefulSetOrdinals persistentVolumeClaimRetentionPolicy=apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy podManagementPolicy=s replicas=i revisionHistoryLimit=i selector=meta_v1.LabelSelector serviceName=s template=core_v1.PodTemplateSpec updateStrategy=apps_v1.StatefulSetUpdateStrategy volumeClaimTemplates=[core_v1.PersistentVolumeClaim
apps_v1.StatefulSetUpdateStrategy rollingUpdate=apps_v1.RollingUpdateStatefulSetStrategy type=s
autoscaling_v1.CrossVersionObjectReference apiVersion=s kind=s name=s
autoscaling_v1.HorizontalPodAutoscaler apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=autoscaling_v1.HorizontalPodAutoscalerSpec status=a
autoscaling_v1.HorizontalPodAutoscalerSpec maxReplicas=i minReplicas=i scaleTargetRef=autoscaling_v1.CrossVersionObjectReference targetCPUUtilizationPercentage=i
autoscaling_v1.Scale apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=autoscaling_v1.ScaleSpec status=a
autoscaling_v1.ScaleSpec replicas=i
autoscaling_v2.ContainerResourceMetricSource container=s name=s target=autoscaling_v2.MetricTarget
autoscaling_v2.CrossVersionObjectReference apiVersion=s kind=s name=s
autoscaling_v2.ExternalMetricSource metric=autoscaling_v2.MetricIdentifier target=autoscaling_v2.MetricTarget
autoscaling_v2.HPAScalingPolicy periodSeconds=i type=s value=i
autoscaling_v2.HPAScalingRules policies=[autoscaling_v2.HPAScalingPolicy selectPolicy=s stabilizationWindowSeconds=i tolerance=q
autoscaling_v2.HorizontalPodAutoscaler apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=autoscaling_v2.HorizontalPodAutoscalerSpec status=a
autoscaling_v2.HorizontalPodAutoscalerBehavior scaleDown=autoscaling_v2.HPAScalingRules scaleUp=autoscaling_v2.HPAScalingRules
autoscaling_v2.HorizontalPodAutoscalerSpec behavior=autoscaling_v2.HorizontalPodAutoscalerBehavior maxReplicas=i metrics=[autoscaling_v2.MetricSpec minReplicas=i scaleTargetRef=autoscaling_v2.CrossVersionObjectReference
autoscaling_v2.MetricIdentifier name=s selector=meta_v1.LabelSelector
autoscaling_v2.MetricSpec containerResource=autoscaling_v2.ContainerResourceMetricSource external=autoscaling_v2.ExternalMetricSource object=autoscaling_v2.ObjectMetricSource pods=autoscaling_v2.PodsMetricSource resource=autoscaling_v2.ResourceMetricSource type=s
autoscaling_v2.MetricTarget averageUtilization=i averageValue=q type=s value=q
autoscaling_v2.ObjectMetricSource describedObject=autoscaling_v2.CrossVersionObjectReference metric=autoscaling_v2.MetricIdentifier target=autoscaling_v2.MetricTarget
autoscaling_v2.PodsMetricSource metric=autoscaling_v2.MetricIdentifier target=autoscaling_v2.MetricTarget
autoscaling_v2.ResourceMetricSource name=s target=autoscaling_v2.MetricTarget
batch_v1.CronJob apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=batch_v1.CronJobSpec status=a
batch_v1.CronJobSpec concurrencyPolicy=s failedJobsHistoryLimit=i jobTemplate=batch_v1.JobTemplateSpec schedule=s startingDeadlineSeconds=i successfulJobsHistoryLimit=i suspend=b timeZone=s
batch_v1.Job apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=batch_v1.JobSpec status=a
batch_v1.JobSchedulingConfiguration disruptionMode=scheduling_v1alpha3.WorkloadPodGroupDisruptionMode resourceClaims=[scheduling_v1alpha3.WorkloadPodGroupResourceClaim schedulingConstraints=scheduling_v1alpha3.WorkloadPodGroupSchedulingConstraints schedulingPolicy=scheduling_v1alpha3.WorkloadPodGroupSchedulingPolicy
batch_v1.JobSpec activeDeadlineSeconds=i backoffLimit=i backoffLimitPerIndex=i completionMode=s completions=i managedBy=s manualSelector=b maxFailedIndexes=i parallelism=i podFailurePolicy=batch_v1.PodFailurePolicy podReplacementPolicy=s scheduling=batch_v1.JobSchedulingConfiguration selector=meta_v1.LabelSelector successPolicy=batch_v1.SuccessPolicy suspend=b template=core_v1.PodTemplateSpec ttlSecondsAfterFinished=i
batch_v1.JobTemplateSpec metadata=meta_v1.ObjectMeta spec=batch_v1.JobSpec
batch_v1.PodFailurePolicy rules=[batch_v1.PodFailurePolicyRule
batch_v1.PodFailurePolicyOnExitCodesRequirement containerName=s operator=s values=[i
batch_v1.PodFailurePolicyOnPodConditionsPattern status=s type=s
batch_v1.PodFailurePolicyRule action=s onExitCodes=batch_v1.PodFailurePolicyOnExitCodesRequirement onPodConditions=[batch_v1.PodFailurePolicyOnPodConditionsPattern
batch_v1.SuccessPolicy rules=[batch_v1.SuccessPolicyRule
batch_v1.SuccessPolicyRule succeededCount=i succeededIndexes=s
certificates_v1.CertificateSigningRequest apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=certificates_v1.CertificateSigningRequestSpec status=a
certificates_v1.CertificateSigningRequestSpec expirationSeconds=i extra=a groups=[s request=s signerName=s uid=s usages=[s username=s
certificates_v1.ClusterTrustBundle apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=certificates_v1.ClusterTrustBundleSpec
certificates_v1.ClusterTrustBundleSpec signerName=s trustBundle=s
certificates_v1.PodCertificateRequest apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=certificates_v1.PodCertificateRequestSpec status=a
certificates_v1.PodCertificateRequestSpec maxExpirationSeconds=i nodeName=s nodeUID=s podName=s podUID=s serviceAccountName=s serviceAccountUID=s signerName=s stubPKCS10Request=s unverifiedUserAnnotations=a
coordination_v1.Lease apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=coordination_v1.LeaseSpec
coordination_v1.LeaseSpec acquireTime=s holderIdentity=s leaseDurationSeconds=i leaseTransitions=i preferredHolder=s renewTime=s strategy=s
core_v1.AWSElasticBlockStoreVolumeSource fsType=s partition=i readOnly=b volumeID=s
core_v1.Affinity nodeAffinity=core_v1.NodeAffinity podAffinity=core_v1.PodAffinity podAntiAffinity=core_v1.PodAntiAffinity
core_v1.AppArmorProfile localhostProfile=s type=s
core_v1.AzureDiskVolumeSource cachingMode=s diskName=s diskURI=s fsType=s kind=s readOnly=b
core_v1.AzureFilePersistentVolumeSource readOnly=b secretName=s secretNamespace=s shareName=s
core_v1.AzureFileVolumeSource readOnly=b secretName=s shareName=s
core_v1.Binding apiVersion=s kind=s metadata=meta_v1.ObjectMeta target=core_v1.ObjectReference
core_v1.CSIPersistentVolumeSource controllerExpandSecretRef=core_v1.SecretReference controllerPublishSecretRef=core_v1.SecretReference driver=s fsType=s nodeExpandSecretRef=core_v1.SecretReference nodePublishSecretRef=core_v1.SecretReference nodeStageSecretRef=core_v1.SecretReference readOnly=b volumeAttributes={s volumeHandle=s
core_v1.CSIVolumeSource driver=s fsType=s nodePublishSecretRef=core_v1.LocalObjectReference readOnly=b volumeAttributes={s
core_v1.Capabilities add=[s drop=[s
core_v1.CephFSPersistentVolumeSource monitors=[s path=s readOnly=b secretFile=s secretRef=core_v1.SecretReference user=s
core_v1.CephFSVolumeSource monitors=[s path=s readOnly=b secretFile=s secretRef=core_v1.LocalObjectReference user=s
core_v1.CinderPersistentVolumeSource fsType=s readOnly=b secretRef=core_v1.SecretReference volumeID=s
core_v1.CinderVolumeSource fsType=s readOnly=b secretRef=core_v1.LocalObjectReference volumeID=s
core_v1.ClientIPConfig timeoutSeconds=i
core_v1.ClusterTrustBundleProjection labelSelector=meta_v1.LabelSelector name=s optional=b path=s signerName=s user=i
core_v1.ComponentCondition error=s message=s status=s type=s
core_v1.ComponentStatus apiVersion=s conditions=[core_v1.ComponentCondition kind=s metadata=meta_v1.ObjectMeta
core_v1.ConfigMap apiVersion=s binaryData={s data={s immutable=b kind=s metadata=meta_v1.ObjectMeta
core_v1.ConfigMapEnvSource name=s optional=b
core_v1.ConfigMapKeySelector key=s name=s optional=b
core_v1.ConfigMapNodeConfigSource kubeletConfigKey=s name=s namespace=s resourceVersion=s uid=s
core_v1.ConfigMapProjection items=[core_v1.KeyToPath name=s optional=b
core_v1.ConfigMapVolumeSource defaultMode=i defaultUser=i items=[core_v1.KeyToPath name=s optional=b
core_v1.Container args=[s command=[s env=[core_v1.EnvVar envFrom=[core_v1.EnvFromSource image=s imagePullPolicy=s lifecycle=core_v1.Lifecycle livenessProbe=core_v1.Probe name=s ports=[core_v1.ContainerPort readinessProbe=core_v1.Probe resizePolicy=[core_v1.ContainerResizePolicy resources=core_v1.ResourceRequirements restartPolicy=s restartPolicyRules=[core_v1.ContainerRestartRule securityContext=core_v1.SecurityContext startupProbe=core_v1.Probe stdin=b stdinOnce=b terminationMessagePath=s terminationMessagePolicy=s tty=b volumeDevices=[core_v1.VolumeDevice volumeMounts=[core_v1.VolumeMount workingDir=s
core_v1.ContainerPort containerPort=i hostIP=s hostPort=i name=s protocol=s
core_v1.ContainerResizePolicy resourceName=s restartPolicy=s
core_v1.ContainerRestartRule action=s exitCodes=core_v1.ContainerRestartRuleOnExitCodes
core_v1.ContainerRestartRuleOnExitCodes operator=s values=[i
core_v1.DownwardAPIProjection items=[core_v1.DownwardAPIVolumeFile
core_v1.DownwardAPIVolumeFile fieldRef=core_v1.ObjectFieldSelector mode=i path=s resourceFieldRef=core_v1.ResourceFieldSelector user=i
core_v1.DownwardAPIVolumeSource defaultMode=i defaultUser=i items=[core_v1.DownwardAPIVolumeFile
core_v1.EmptyDirVolumeSource medium=s mode=i sizeLimit=q
core_v1.EndpointAddress hostname=s ip=s nodeName=s targetRef=core_v1.ObjectReference
core_v1.EndpointPort appProtocol=s name=s port=i protocol=s
core_v1.EndpointSubset addresses=[core_v1.EndpointAddress notReadyAddresses=[core_v1.EndpointAddress ports=[core_v1.EndpointPort
core_v1.Endpoints apiVersion=s kind=s metadata=meta_v1.ObjectMeta subsets=[core_v1.EndpointSubset
core_v1.EnvFromSource configMapRef=core_v1.ConfigMapEnvSource prefix=s secretRef=core_v1.SecretEnvSource
core_v1.EnvVar name=s value=s valueFrom=core_v1.EnvVarSource
core_v1.EnvVarSource configMapKeyRef=core_v1.ConfigMapKeySelector fieldRef=core_v1.ObjectFieldSelector fileKeyRef=core_v1.FileKeySelector resourceFieldRef=core_v1.ResourceFieldSelector secretKeyRef=core_v1.SecretKeySelector
core_v1.EphemeralContainer args=[s command=[s env=[core_v1.EnvVar envFrom=[core_v1.EnvFromSource image=s imagePullPolicy=s lifecycle=core_v1.Lifecycle livenessProbe=core_v1.Probe name=s ports=[core_v1.ContainerPort readinessProbe=core_v1.Probe resizePolicy=[core_v1.ContainerResizePolicy resources=core_v1.ResourceRequirements restartPolicy=s restartPolicyRules=[core_v1.ContainerRestartRule securityContext=core_v1.SecurityContext startupProbe=core_v1.Probe stdin=b stdinOnce=b targetContainerName=s terminationMessagePath=s terminationMessagePolicy=s tty=b volumeDevices=[core_v1.VolumeDevice volumeMounts=[core_v1.VolumeMount workingDir=s
core_v1.EphemeralVolumeSource volumeClaimTemplate=core_v1.PersistentVolumeClaimTemplate
core_v1.Event action=s apiVersion=s count=i eventTime=s firstTimestamp=s involvedObject=core_v1.ObjectReference kind=s lastTimestamp=s message=s metadata=meta_v1.ObjectMeta reason=s related=core_v1.ObjectReference reportingComponent=s reportingInstance=s series=core_v1.EventSeries source=core_v1.EventSource type=s
core_v1.EventSeries count=i lastObservedTime=s
core_v1.EventSource component=s host=s
core_v1.EvictionResponder name=s priority=i
core_v1.ExecAction command=[s
core_v1.FCVolumeSource fsType=s lun=i readOnly=b targetWWNs=[s wwids=[s
core_v1.FileKeySelector key=s optional=b path=s volumeName=s
core_v1.FlexPersistentVolumeSource driver=s fsType=s options={s readOnly=b secretRef=core_v1.SecretReference
core_v1.FlexVolumeSource driver=s fsType=s options={s readOnly=b secretRef=core_v1.LocalObjectReference
core_v1.FlockerVolumeSource datasetName=s datasetUUID=s
core_v1.GCEPersistentDiskVolumeSource fsType=s partition=i pdName=s readOnly=b
core_v1.GRPCAction mode=s port=i service=s
core_v1.GitRepoVolumeSource directory=s repository=s revision=s
core_v1.GlusterfsPersistentVolumeSource endpoints=s endpointsNamespace=s path=s readOnly=b
core_v1.GlusterfsVolumeSource endpoints=s path=s readOnly=b
core_v1.HTTPGetAction host=s httpHeaders=[core_v1.HTTPHeader path=s port=x protocol=s scheme=s
core_v1.HTTPHeader name=s value=s
core_v1.HostAlias hostnames=[s ip=s
core_v1.HostPathVolumeSource path=s type=s
core_v1.ISCSIPersistentVolumeSource chapAuthDiscovery=b chapAuthSession=b fsType=s initiatorName=s iqn=s iscsiInterface=s lun=i portals=[s readOnly=b secretRef=core_v1.SecretReference targetPortal=s
core_v1.ISCSIVolumeSource chapAuthDiscovery=b chapAuthSession=b fsType=s initiatorName=s iqn=s iscsiInterface=s lun=i portals=[s readOnly=b secretRef=core_v1.LocalObjectReference targetPortal=s
core_v1.ImageVolumeSource pullPolicy=s reference=s
core_v1.KeyToPath key=s mode=i path=s user=i
core_v1.Lifecycle postStart=core_v1.LifecycleHandler preStop=core_v1.LifecycleHandler stopSignal=s
core_v1.LifecycleHandler exec=core_v1.ExecAction httpGet=core_v1.HTTPGetAction sleep=core_v1.SleepAction tcpSocket=core_v1.TCPSocketAction
core_v1.LimitRange apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=core_v1.LimitRangeSpec
core_v1.LimitRangeItem default={q defaultRequest={q max={q maxLimitRequestRatio={q min={q type=s
core_v1.LimitRangeSpec limits=[core_v1.LimitRangeItem
core_v1.LocalObjectReference name=s
core_v1.LocalVolumeSource fsType=s path=s
core_v1.NFSVolumeSource path=s readOnly=b server=s
core_v1.Namespace apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=core_v1.NamespaceSpec status=a
core_v1.NamespaceSpec finalizers=[s
core_v1.Node apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=core_v1.NodeSpec status=a
core_v1.NodeAffinity preferredDuringSchedulingIgnoredDuringExecution=[core_v1.PreferredSchedulingTerm requiredDuringSchedulingIgnoredDuringExecution=core_v1.NodeSelector
core_v1.NodeConfigSource configMap=core_v1.ConfigMapNodeConfigSource
core_v1.NodePodPreemptionPolicy disableResizePreemption=[s
core_v1.NodeSelector nodeSelectorTerms=[core_v1.NodeSelectorTerm
core_v1.NodeSelectorRequirement key=s operator=s values=[s
core_v1.NodeSelectorTerm matchExpressions=[core_v1.NodeSelectorRequirement matchFields=[core_v1.NodeSelectorRequirement
core_v1.NodeSpec configSource=core_v1.NodeConfigSource externalID=s podCIDR=s podCIDRs=[s podPreemptionPolicy=core_v1.NodePodPreemptionPolicy providerID=s taints=[core_v1.Taint unschedulable=b
core_v1.ObjectFieldSelector apiVersion=s fieldPath=s
core_v1.ObjectReference apiVersion=s fieldPath=s kind=s name=s namespace=s resourceVersion=s uid=s
core_v1.PersistentVolume apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=core_v1.PersistentVolumeSpec status=a
core_v1.PersistentVolumeClaim apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=core_v1.PersistentVolumeClaimSpec status=a
core_v1.PersistentVolumeClaimSpec accessModes=[s dataSource=core_v1.TypedLocalObjectReference dataSourceRef=core_v1.TypedObjectReference resources=core_v1.VolumeResourceRequirements selector=meta_v1.LabelSelector storageClassName=s volumeAttributesClassName=s volumeMode=s volumeName=s
core_v1.PersistentVolumeClaimTemplate metadata=meta_v1.ObjectMeta spec=core_v1.PersistentVolumeClaimSpec
core_v1.PersistentVolumeClaimVolumeSource claimName=s readOnly=b
core_v1.PersistentVolumeSpec accessModes=[s awsElasticBlockStore=core_v1.AWSElasticBlockStoreVolumeSource azureDisk=core_v1.AzureDiskVolumeSource azureFile=core_v1.AzureFilePersistentVolumeSource capacity={q cephfs=core_v1.CephFSPersistentVolumeSource cinder=core_v1.CinderPersistentVolumeSource claimRef=core_v1.ObjectReference csi=core_v1.CSIPersistentVolumeSource fc=core_v1.FCVolumeSource flexVolume=core_v1.FlexPersistentVolumeSource flocker=core_v1.FlockerVolumeSource gcePersistentDisk=core_v1.GCEPersistentDiskVolumeSource glusterfs=core_v1.GlusterfsPersistentVolumeSource hostPath=core_v1.HostPathVolumeSource iscsi=core_v1.ISCSIPersistentVolumeSource local=core_v1.LocalVolumeSource mountOptions=[s nfs=core_v1.NFSVolumeSource nodeAffinity=core_v1.VolumeNodeAffinity persistentVolumeReclaimPolicy=s photonPersistentDisk=core_v1.PhotonPersistentDiskVolumeSource portworxVolume=core_v1.PortworxVolumeSource quobyte=core_v1.QuobyteVolumeSource rbd=core_v1.RBDPersistentVolumeSource scaleIO=core_v1.ScaleIOPersistentVolumeSource storageClassName=s storageos=core_v1.StorageOSPersistentVolumeSource volumeAttributesClassName=s volumeMode=s vsphereVolume=core_v1.VsphereVirtualDiskVolumeSource
core_v1.PhotonPersistentDiskVolumeSource fsType=s pdID=s
core_v1.Pod apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=core_v1.PodSpec status=a
core_v1.PodAffinity preferredDuringSchedulingIgnoredDuringExecution=[core_v1.WeightedPodAffinityTerm requiredDuringSchedulingIgnoredDuringExecution=[core_v1.PodAffinityTerm
core_v1.PodAffinityTerm labelSelector=meta_v1.LabelSelector matchLabelKeys=[s mismatchLabelKeys=[s namespaceSelector=meta_v1.LabelSelector namespaces=[s topologyKey=s
core_v1.PodAntiAffinity preferredDuringSchedulingIgnoredDuringExecution=[core_v1.WeightedPodAffinityTerm requiredDuringSchedulingIgnoredDuringExecution=[core_v1.PodAffinityTerm
core_v1.PodCertificateProjection certificateChainPath=s credentialBundlePath=s keyPath=s keyType=s maxExpirationSeconds=i signerName=s user=i userAnnotations=a
core_v1.PodDNSConfig nameservers=[s options=[core_v1.PodDNSConfigOption searches=[s
core_v1.PodDNSConfigOption name=s value=s
core_v1.PodOS name=s
core_v1.PodReadinessGate conditionType=s
core_v1.PodResourceClaim name=s resourceClaimName=s resourceClaimTemplateName=s
core_v1.PodSchedulingGate name=s
core_v1.PodSchedulingGroup podGroupName=s
core_v1.PodSecurityContext appArmorProfile=core_v1.AppArmorProfile fsGroup=i fsGroupChangePolicy=s runAsGroup=i runAsNonRoot=b runAsUser=i seLinuxChangePolicy=s seLinuxOptions=core_v1.SELinuxOptions seccompProfile=core_v1.SeccompProfile supplementalGroups=[i supplementalGroupsPolicy=s sysctls=[core_v1.Sysctl windowsOptions=core_v1.WindowsSecurityContextOptions
core_v1.PodSpec activeDeadlineSeconds=i affinity=core_v1.Affinity automountServiceAccountToken=b containers=[core_v1.Container dnsConfig=core_v1.PodDNSConfig dnsPolicy=s enableServiceLinks=b ephemeralContainers=[core_v1.EphemeralContainer evictionResponders=[core_v1.EvictionResponder hostAliases=[core_v1.HostAlias hostIPC=b hostNetwork=b hostPID=b hostUsers=b hostname=s hostnameOverride=s imagePullSecrets=[core_v1.LocalObjectReference initContainers=[core_v1.Container nodeName=s nodeSelector={s os=core_v1.PodOS overhead={q preemptionPolicy=s priority=i priorityClassName=s readinessGates=[core_v1.PodReadinessGate resourceClaims=[core_v1.PodResourceClaim resources=core_v1.ResourceRequirements restartPolicy=s runtimeClassName=s schedulerName=s schedulingGates=[core_v1.PodSchedulingGate schedulingGroup=core_v1.PodSchedulingGroup securityContext=core_v1.PodSecurityContext serviceAccount=s serviceAccountName=s setHostnameAsFQDN=b shareProcessNamespace=b subdomain=s terminationGracePeriodSeconds=i tolerations=[core_v1.Toleration topologySpreadConstraints=[core_v1.TopologySpreadConstraint volumes=[core_v1.Volume
core_v1.PodTemplate apiVersion=s kind=s metadata=meta_v1.ObjectMeta template=core_v1.PodTemplateSpec
core_v1.PodTemplateSpec metadata=meta_v1.ObjectMeta spec=core_v1.PodSpec
core_v1.PortworxVolumeSource fsType=s readOnly=b volumeID=s
core_v1.PreferredSchedulingTerm preference=core_v1.NodeSelectorTerm weight=i
core_v1.Probe exec=core_v1.ExecAction failureThreshold=i grpc=core_v1.GRPCAction httpGet=core_v1.HTTPGetAction initialDelaySeconds=i periodSeconds=i successThreshold=i tcpSocket=core_v1.TCPSocketAction terminationGracePeriodSeconds=i timeoutSeconds=i
core_v1.ProjectedVolumeSource defaultMode=i defaultUser=i sources=[core_v1.VolumeProjection
core_v1.QuobyteVolumeSource group=s readOnly=b registry=s tenant=s user=s volume=s
core_v1.RBDPersistentVolumeSource fsType=s image=s keyring=s monitors=[s pool=s readOnly=b secretRef=core_v1.SecretReference user=s
core_v1.RBDVolumeSource fsType=s image=s keyring=s monitors=[s pool=s readOnly=b secretRef=core_v1.LocalObjectReference user=s
core_v1.ReplicationController apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=core_v1.ReplicationControllerSpec status=a
core_v1.ReplicationControllerSpec minReadySeconds=i replicas=i selector={s template=core_v1.PodTemplateSpec
core_v1.ResourceClaim name=s request=s
core_v1.ResourceFieldSelector containerName=s divisor=q resource=s
core_v1.ResourceQuota apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=core_v1.ResourceQuotaSpec status=a
core_v1.ResourceQuotaSpec hard={q scopeSelector=core_v1.ScopeSelector scopes=[s
core_v1.ResourceRequirements claims=[core_v1.ResourceClaim limits={q requests={q
core_v1.SELinuxOptions level=s role=s type=s user=s
core_v1.ScaleIOPersistentVolumeSource fsType=s gateway=s protectionDomain=s readOnly=b secretRef=core_v1.SecretReference sslEnabled=b storageMode=s storagePool=s system=s volumeName=s
core_v1.ScaleIOVolumeSource fsType=s gateway=s protectionDomain=s readOnly=b secretRef=core_v1.LocalObjectReference sslEnabled=b storageMode=s storagePool=s system=s volumeName=s
core_v1.ScopeSelector matchExpressions=[core_v1.ScopedResourceSelectorRequirement
core_v1.ScopedResourceSelectorRequirement operator=s scopeName=s values=[s
core_v1.SeccompProfile localhostProfile=s type=s
core_v1.Secret apiVersion=s data={s immutable=b kind=s metadata=meta_v1.ObjectMeta stringData={s type=s
core_v1.SecretEnvSource name=s optional=b
core_v1.SecretKeySelector key=s name=s optional=b
core_v1.SecretProjection items=[core_v1.KeyToPath name=s optional=b
core_v1.SecretReference name=s namespace=s
core_v1.SecretVolumeSource defaultMode=i defaultUser=i items=[core_v1.KeyToPath optional=b secretName=s
core_v1.SecurityContext allowPrivilegeEscalation=b appArmorProfile=core_v1.AppArmorProfile capabilities=core_v1.Capabilities privileged=b procMount=s readOnlyRootFilesystem=b runAsGroup=i runAsNonRoot=b runAsUser=i seLinuxOptions=core_v1.SELinuxOptions seccompProfile=core_v1.SeccompProfile windowsOptions=core_v1.WindowsSecurityContextOptions
core_v1.Service apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=core_v1.ServiceSpec status=a
core_v1.ServiceAccount apiVersion=s automountServiceAccountToken=b imagePullSecrets=[core_v1.LocalObjectReference kind=s metadata=meta_v1.ObjectMeta secrets=[core_v1.ObjectReference
core_v1.ServiceAccountTokenProjection audience=s expirationSeconds=i path=s user=i
core_v1.ServicePort appProtocol=s name=s nodePort=i port=i protocol=s targetPort=x
core_v1.ServiceSpec allocateLoadBalancerNodePorts=b clusterIP=s clusterIPs=[s externalIPs=[s externalName=s externalTrafficPolicy=s healthCheckNodePort=i internalTrafficPolicy=s ipFamilies=[s ipFamilyPolicy=s loadBalancerClass=s loadBalancerIP=s loadBalancerSourceRanges=[s ports=[core_v1.ServicePort publishNotReadyAddresses=b selector={s sessionAffinity=s sessionAffinityConfig=core_v1.SessionAffinityConfig trafficDistribution=s type=s
core_v1.SessionAffinityConfig clientIP=core_v1.ClientIPConfig
core_v1.SleepAction seconds=i
core_v1.StorageOSPersistentVolumeSource fsType=s readOnly=b secretRef=core_v1.ObjectReference volumeName=s volumeNamespace=s
core_v1.StorageOSVolumeSource fsType=s readOnly=b secretRef=core_v1.LocalObjectReference volumeName=s volumeNamespace=s
core_v1.Sysctl name=s value=s
core_v1.TCPSocketAction host=s port=x
core_v1.Taint effect=s key=s timeAdded=s value=s
core_v1.Toleration effect=s key=s operator=s tolerationSeconds=i value=s
core_v1.TopologySelectorLabelRequirement key=s values=[s
core_v1.TopologySelectorTerm matchLabelExpressions=[core_v1.TopologySelectorLabelRequirement
core_v1.TopologySpreadConstraint labelSelector=meta_v1.LabelSelector matchLabelKeys=[s maxSkew=i minDomains=i nodeAffinityPolicy=s nodeTaintsPolicy=s topologyKey=s whenUnsatisfiable=s
core_v1.TypedLocalObjectReference apiGroup=s kind=s name=s
core_v1.TypedObjectReference apiGroup=s kind=s name=s namespace=s
core_v1.Volume awsElasticBlockStore=core_v1.AWSElasticBlockStoreVolumeSource azureDisk=core_v1.AzureDiskVolumeSource azureFile=core_v1.AzureFileVolumeSource cephfs=core_v1.CephFSVolumeSource cinder=core_v1.CinderVolumeSource configMap=core_v1.ConfigMapVolumeSource csi=core_v1.CSIVolumeSource downwardAPI=core_v1.DownwardAPIVolumeSource emptyDir=core_v1.EmptyDirVolumeSource ephemeral=core_v1.EphemeralVolumeSource fc=core_v1.FCVolumeSource flexVolume=core_v1.FlexVolumeSource flocker=core_v1.FlockerVolumeSource gcePersistentDisk=core_v1.GCEPersistentDiskVolumeSource gitRepo=core_v1.GitRepoVolumeSource glusterfs=core_v1.GlusterfsVolumeSource hostPath=core_v1.HostPathVolumeSource image=core_v1.ImageVolumeSource iscsi=core_v1.ISCSIVolumeSource name=s nfs=core_v1.NFSVolumeSource persistentVolumeClaim=core_v1.PersistentVolumeClaimVolumeSource photonPersistentDisk=core_v1.PhotonPersistentDiskVolumeSource portworxVolume=core_v1.PortworxVolumeSource projected=core_v1.ProjectedVolumeSource quobyte=core_v1.QuobyteVolumeSource rbd=core_v1.RBDVolumeSource scaleIO=core_v1.ScaleIOVolumeSource secret=core_v1.SecretVolumeSource storageos=core_v1.StorageOSVolumeSource vsphereVolume=core_v1.VsphereVirtualDiskVolumeSource
core_v1.VolumeDevice devicePath=s name=s
core_v1.VolumeMount bindMountOptions=[s mountPath=s mountPropagation=s name=s readOnly=b recursiveReadOnly=s subPath=s subPathExpr=s
core_v1.VolumeNodeAffinity required=core_v1.NodeSelector
core_v1.VolumeProjection clusterTrustBundle=core_v1.ClusterTrustBundleProjection configMap=core_v1.ConfigMapProjection downwardAPI=core_v1.DownwardAPIProjection podCertificate=core_v1.PodCertificateProjection secret=core_v1.SecretProjection serviceAccountToken=core_v1.ServiceAccountTokenProjection
core_v1.VolumeResourceRequirements limits={q requests={q
core_v1.VsphereVirtualDiskVolumeSource fsType=s storagePolicyID=s storagePolicyName=s volumePath=s
core_v1.WeightedPodAffinityTerm podAffinityTerm=core_v1.PodAffinityTerm weight=i
core_v1.WindowsSecurityContextOptions gmsaCredentialSpec=s gmsaCredentialSpecName=s hostProcess=b runAsUserName=s
discovery_v1.Endpoint addresses=[s conditions=discovery_v1.EndpointConditions deprecatedTopology=a hints=discovery_v1.EndpointHints hostname=s nodeName=s targetRef=core_v1.ObjectReference zone=s
discovery_v1.EndpointConditions ready=b serving=b terminating=b
discovery_v1.EndpointHints forNodes=[discovery_v1.ForNode forZones=[discovery_v1.ForZone
discovery_v1.EndpointPort appProtocol=s name=s port=i protocol=s
discovery_v1.EndpointSlice addressType=s apiVersion=s endpoints=[discovery_v1.Endpoint kind=s metadata=meta_v1.ObjectMeta ports=[discovery_v1.EndpointPort
discovery_v1.ForNode name=s
discovery_v1.ForZone name=s
events_v1.Event action=s apiVersion=s deprecatedCount=i deprecatedFirstTimestamp=s deprecatedLastTimestamp=s deprecatedSource=core_v1.EventSource eventTime=s kind=s metadata=meta_v1.ObjectMeta note=s reason=s regarding=core_v1.ObjectReference related=core_v1.ObjectReference reportingController=s reportingInstance=s series=events_v1.EventSeries type=s
events_v1.EventSeries count=i lastObservedTime=s
flowcontrol_v1.ExemptPriorityLevelConfiguration lendablePercent=i nominalConcurrencyShares=i
flowcontrol_v1.FlowDistinguisherMethod type=s
flowcontrol_v1.FlowSchema apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=flowcontrol_v1.FlowSchemaSpec status=a
flowcontrol_v1.FlowSchemaSpec distinguisherMethod=flowcontrol_v1.FlowDistinguisherMethod matchingPrecedence=i priorityLevelConfiguration=flowcontrol_v1.PriorityLevelConfigurationReference rules=[flowcontrol_v1.PolicyRulesWithSubjects
flowcontrol_v1.GroupSubject name=s
flowcontrol_v1.LimitResponse queuing=flowcontrol_v1.QueuingConfiguration type=s
flowcontrol_v1.LimitedPriorityLevelConfiguration borrowingLimitPercent=i lendablePercent=i limitResponse=flowcontrol_v1.LimitResponse nominalConcurrencyShares=i
flowcontrol_v1.NonResourcePolicyRule nonResourceURLs=[s verbs=[s
flowcontrol_v1.PolicyRulesWithSubjects nonResourceRules=[flowcontrol_v1.NonResourcePolicyRule resourceRules=[flowcontrol_v1.ResourcePolicyRule subjects=[flowcontrol_v1.Subject
flowcontrol_v1.PriorityLevelConfiguration apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=flowcontrol_v1.PriorityLevelConfigurationSpec status=a
flowcontrol_v1.PriorityLevelConfigurationReference name=s
flowcontrol_v1.PriorityLevelConfigurationSpec exempt=flowcontrol_v1.ExemptPriorityLevelConfiguration limited=flowcontrol_v1.LimitedPriorityLevelConfiguration type=s
flowcontrol_v1.QueuingConfiguration handSize=i queueLengthLimit=i queues=i
flowcontrol_v1.ResourcePolicyRule apiGroups=[s clusterScope=b namespaces=[s resources=[s verbs=[s
flowcontrol_v1.ServiceAccountSubject name=s namespace=s
flowcontrol_v1.Subject group=flowcontrol_v1.GroupSubject kind=s serviceAccount=flowcontrol_v1.ServiceAccountSubject user=flowcontrol_v1.UserSubject
flowcontrol_v1.UserSubject name=s
meta_v1.DeleteOptions apiVersion=s dryRun=[s gracePeriodSeconds=i ignoreStoreReadErrorWithClusterBreakingPotential=b kind=s orphanDependents=b preconditions=meta_v1.Preconditions propagationPolicy=s
meta_v1.GroupResource group=s resource=s
meta_v1.LabelSelector matchExpressions=[meta_v1.LabelSelectorRequirement matchLabels={s
meta_v1.LabelSelectorRequirement key=s operator=s values=[s
meta_v1.ManagedFieldsEntry apiVersion=s fieldsType=s fieldsV1=a manager=s operation=s subresource=s time=s
meta_v1.ObjectMeta annotations={s creationTimestamp=s deletionGracePeriodSeconds=i deletionTimestamp=s finalizers=[s generateName=s generation=i labels={s managedFields=[meta_v1.ManagedFieldsEntry name=s namespace=s ownerReferences=[meta_v1.OwnerReference resourceVersion=s selfLink=s uid=s
meta_v1.OwnerReference apiVersion=s blockOwnerDeletion=b controller=b kind=s name=s uid=s
meta_v1.Preconditions resourceVersion=s uid=s
networking_v1.HTTPIngressPath backend=networking_v1.IngressBackend path=s pathType=s
networking_v1.HTTPIngressRuleValue paths=[networking_v1.HTTPIngressPath
networking_v1.IPAddress apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=networking_v1.IPAddressSpec
networking_v1.IPAddressSpec parentRef=networking_v1.ParentReference
networking_v1.IPBlock cidr=s except=[s
networking_v1.Ingress apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=networking_v1.IngressSpec status=a
networking_v1.IngressBackend resource=core_v1.TypedLocalObjectReference service=networking_v1.IngressServiceBackend
networking_v1.IngressClass apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=networking_v1.IngressClassSpec
networking_v1.IngressClassParametersReference apiGroup=s kind=s name=s namespace=s scope=s
networking_v1.IngressClassSpec controller=s parameters=networking_v1.IngressClassParametersReference
networking_v1.IngressRule host=s http=networking_v1.HTTPIngressRuleValue
networking_v1.IngressServiceBackend name=s port=networking_v1.ServiceBackendPort
networking_v1.IngressSpec defaultBackend=networking_v1.IngressBackend ingressClassName=s rules=[networking_v1.IngressRule tls=[networking_v1.IngressTLS
networking_v1.IngressTLS hosts=[s secretName=s
networking_v1.NetworkPolicy apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=networking_v1.NetworkPolicySpec
networking_v1.NetworkPolicyEgressRule ports=[networking_v1.NetworkPolicyPort to=[networking_v1.NetworkPolicyPeer
networking_v1.NetworkPolicyIngressRule from=[networking_v1.NetworkPolicyPeer ports=[networking_v1.NetworkPolicyPort
networking_v1.NetworkPolicyPeer ipBlock=networking_v1.IPBlock namespaceSelector=meta_v1.LabelSelector podSelector=meta_v1.LabelSelector
networking_v1.NetworkPolicyPort endPort=i port=x protocol=s
networking_v1.NetworkPolicySpec egress=[networking_v1.NetworkPolicyEgressRule ingress=[networking_v1.NetworkPolicyIngressRule podSelector=meta_v1.LabelSelector policyTypes=[s
networking_v1.ParentReference group=s name=s namespace=s resource=s
networking_v1.ServiceBackendPort name=s number=i
networking_v1.ServiceCIDR apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=networking_v1.ServiceCIDRSpec status=a
networking_v1.ServiceCIDRSpec cidrs=[s
node_v1.Overhead podFixed={q
node_v1.RuntimeClass apiVersion=s handler=s kind=s metadata=meta_v1.ObjectMeta overhead=node_v1.Overhead scheduling=node_v1.Scheduling
node_v1.Scheduling nodeSelector={s tolerations=[core_v1.Toleration
policy_v1.Eviction apiVersion=s deleteOptions=meta_v1.DeleteOptions kind=s metadata=meta_v1.ObjectMeta
policy_v1.PodDisruptionBudget apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=policy_v1.PodDisruptionBudgetSpec status=a
policy_v1.PodDisruptionBudgetSpec maxUnavailable=x minAvailable=x selector=meta_v1.LabelSelector unhealthyPodEvictionPolicy=s
rbac_v1.AggregationRule clusterRoleSelectors=[meta_v1.LabelSelector
rbac_v1.ClusterRole aggregationRule=rbac_v1.AggregationRule apiVersion=s kind=s metadata=meta_v1.ObjectMeta rules=[rbac_v1.PolicyRule
rbac_v1.ClusterRoleBinding apiVersion=s kind=s metadata=meta_v1.ObjectMeta roleRef=rbac_v1.RoleRef subjects=[rbac_v1.Subject
rbac_v1.PolicyRule apiGroups=[s nonResourceURLs=[s resourceNames=[s resources=[s verbs=[s
rbac_v1.Role apiVersion=s kind=s metadata=meta_v1.ObjectMeta rules=[rbac_v1.PolicyRule
rbac_v1.RoleBinding apiVersion=s kind=s metadata=meta_v1.ObjectMeta roleRef=rbac_v1.RoleRef subjects=[rbac_v1.Subject
rbac_v1.RoleRef apiGroup=s kind=s name=s
rbac_v1.Subject apiGroup=s kind=s name=s namespace=s
resource_v1.CELDeviceSelector expression=s
resource_v1.CapacityRequirements requests={q
resource_v1.CounterSet counters=a name=s
resource_v1.Device allNodes=b allowMultipleAllocations=b attributes={s bindingConditions=[s bindingFailureConditions=[s bindsToNode=b capacity={q consumesCounters=[resource_v1.DeviceCounterConsumption name=s nodeAllocatableResources=a nodeName=s nodeSelector=core_v1.NodeSelector taints=[resource_v1.DeviceTaint
resource_v1.DeviceClaim config=[resource_v1.DeviceClaimConfiguration constraints=[resource_v1.DeviceConstraint requests=[resource_v1.DeviceRequest
resource_v1.DeviceClaimConfiguration opaque=resource_v1.OpaqueDeviceConfiguration requests=[s
resource_v1.DeviceClass apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=resource_v1.DeviceClassSpec
resource_v1.DeviceClassConfiguration opaque=resource_v1.OpaqueDeviceConfiguration
resource_v1.DeviceClassSpec config=[resource_v1.DeviceClassConfiguration extendedResourceName=s selectors=[resource_v1.DeviceSelector
resource_v1.DeviceConstraint distinctAttribute=s matchAttribute=s requests=[s
resource_v1.DeviceCounterConsumption compatibilityGroups=[s counterSet=s counters=a
resource_v1.DeviceDerivedAttribute expression=s name=s
resource_v1.DeviceRequest exactly=resource_v1.ExactDeviceRequest firstAvailable=[resource_v1.DeviceSubRequest name=s
resource_v1.DeviceSelector cel=resource_v1.CELDeviceSelector
resource_v1.DeviceSubRequest allocationMode=s capacity=resource_v1.CapacityRequirements count=i derivedAttributes=[resource_v1.DeviceDerivedAttribute deviceClassName=s name=s selectors=[resource_v1.DeviceSelector tolerations=[resource_v1.DeviceToleration
resource_v1.DeviceTaint effect=s key=s timeAdded=s value=s
resource_v1.DeviceTaintRule apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=resource_v1.DeviceTaintRuleSpec status=a
resource_v1.DeviceTaintRuleSpec deviceSelector=resource_v1.DeviceTaintSelector taint=resource_v1.DeviceTaint
resource_v1.DeviceTaintSelector device=s driver=s pool=s
resource_v1.DeviceToleration effect=s key=s operator=s tolerationSeconds=i value=s
resource_v1.ExactDeviceRequest adminAccess=b allocationMode=s capacity=resource_v1.CapacityRequirements count=i derivedAttributes=[resource_v1.DeviceDerivedAttribute deviceClassName=s selectors=[resource_v1.DeviceSelector tolerations=[resource_v1.DeviceToleration
resource_v1.OpaqueDeviceConfiguration driver=s parameters={s
resource_v1.ResourceClaim apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=resource_v1.ResourceClaimSpec status=a
resource_v1.ResourceClaimSpec devices=resource_v1.DeviceClaim
resource_v1.ResourceClaimTemplate apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=resource_v1.ResourceClaimTemplateSpec
resource_v1.ResourceClaimTemplateSpec metadata=meta_v1.ObjectMeta spec=resource_v1.ResourceClaimSpec
resource_v1.ResourcePool generation=i name=s resourceSliceCount=i
resource_v1.ResourceSlice apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=resource_v1.ResourceSliceSpec
resource_v1.ResourceSliceSpec allNodes=b devices=[resource_v1.Device driver=s nodeName=s nodeSelector=core_v1.NodeSelector partitionTypeAttribute=s perDeviceNodeSelection=b pool=resource_v1.ResourcePool sharedCounters=[resource_v1.CounterSet skipNodeOperations=[s
scheduling_v1.PriorityClass apiVersion=s description=s globalDefault=b kind=s metadata=meta_v1.ObjectMeta preemptionPolicy=s value=i
storage_v1.CSIDriver apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=storage_v1.CSIDriverSpec
storage_v1.CSIDriverSpec attachRequired=b fsGroupPolicy=s nodeAllocatableUpdatePeriodSeconds=i podInfoOnMount=b preventPodSchedulingIfMissing=b requiresRepublish=b seLinuxMount=b serviceAccountTokenInSecrets=b storageCapacity=b tokenRequests=[storage_v1.TokenRequest volumeLifecycleModes=[s
storage_v1.CSINode apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=storage_v1.CSINodeSpec status=a
storage_v1.CSINodeDriver allocatable=storage_v1.VolumeNodeResources name=s nodeID=s topologyKeys=[s
storage_v1.CSINodeSpec drivers=[storage_v1.CSINodeDriver
storage_v1.CSIStorageCapacity apiVersion=s capacity=q kind=s maximumVolumeSize=q metadata=meta_v1.ObjectMeta nodeTopology=meta_v1.LabelSelector storageClassName=s
storage_v1.StorageClass allowVolumeExpansion=b allowedTopologies=[core_v1.TopologySelectorTerm apiVersion=s kind=s metadata=meta_v1.ObjectMeta mountOptions=[s parameters={s provisioner=s reclaimPolicy=s volumeBindingMode=s
storage_v1.TokenRequest audience=s expirationSeconds=i
storage_v1.VolumeAttachment apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=storage_v1.VolumeAttachmentSpec status=a
storage_v1.VolumeAttachmentSource inlineVolumeSpec=core_v1.PersistentVolumeSpec persistentVolumeName=s
storage_v1.VolumeAttachmentSpec attacher=s nodeName=s source=storage_v1.VolumeAttachmentSource
storage_v1.VolumeAttributesClass apiVersion=s driverName=s kind=s metadata=meta_v1.ObjectMeta parameters={s
storage_v1.VolumeNodeResources count=i
storagemigration_v1.StorageVersionMigration apiVersion=s kind=s metadata=meta_v1.ObjectMeta spec=storagemigration_v1.StorageVersionMigrationSpec status=a
storagemigration_v1.StorageVersionMigrationSpec resource=meta_v1.GroupResource
"""
