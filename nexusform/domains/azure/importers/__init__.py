"""Readers of Azure exports and of the plans of other tools.

`az` lists, what-if results, Terraform plans.
"""
