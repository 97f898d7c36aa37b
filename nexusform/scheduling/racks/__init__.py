"""VMs on bare-metal machines: the rule of docs/fidelity.md."""
