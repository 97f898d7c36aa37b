"""OpenStack as the platform of VMs.

Hosts come from its command line, and placement is as Nova decides it.
"""
