"""The kinds of what is placed: VMs, which the engine knows itself, and those that domains bring."""
