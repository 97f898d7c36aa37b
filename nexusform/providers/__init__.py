"""Providers that execute steps. registry.py lists them."""

# Public names of the package, by module.
PUBLIC = {
    "exec_plugin": "PluginProblem",
    "kubeconfig": ("TRUSTED Account KubeconfigTrust KubeconfigProblem read_pod_account build_api_client read_account"),
    "registry": "ProviderKind PROVIDERS",
    "simulated": "apply_answer",
}
