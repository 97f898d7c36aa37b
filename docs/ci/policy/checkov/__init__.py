"""Policies for checkov over `nexusform show -json PLANFILE`; see ../../conftest.md."""
