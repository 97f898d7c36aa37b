"""What carries out steps. registry.py lists them."""

# What other rooms may use of this one.
DOOR = {
    "kubeconfig": "Account KubeconfigProblem account_of_pod http_client read_account",
    "registry": "ProviderKind PROVIDERS",
    "simulated": "with_answer",
}
