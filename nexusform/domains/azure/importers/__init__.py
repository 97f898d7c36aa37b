"""Readers of Azure exports and of the plans of other tools.

They read `az` lists, what-if results and Terraform plans.
"""
