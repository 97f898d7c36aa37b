"""OpenStack as the platform of VMs: hosts from its command line, and placement as Nova decides it."""
