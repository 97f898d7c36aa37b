"""Providers that execute steps.

registry.py lists them.
"""

# Public names of the package, by module.
PUBLIC = {
    "kubeconfig": (
        "ExecPluginProblem TRUSTED KubernetesAccount KubeconfigTrust KubeconfigProblem "
        "read_pod_account build_api_client read_account"
    ),
    "optional_provider_interfaces": (
        "FinderByArguments FixedIdentity IdentifiedProvider IdentityComparison "
        "ReadDependentProvider RereadingProvider SiteFactsProvider StartValueProvider "
        "WorkloadListingProvider"
    ),
    "provider_definition": "ProviderDefinition",
    "registry": "PROVIDERS",
    "simulated": "apply_answer",
    "clock": "check_clock is_clock_fixed read_clock",
}
