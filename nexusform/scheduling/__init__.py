"""Pure decisions: hosts, demands and what is already bound. Knows nothing of HCL, state or plans."""
