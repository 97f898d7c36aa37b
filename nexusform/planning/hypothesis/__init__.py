"""Hypothetical plans: the plan of a request with edits, beside the plan without them.

The plan without edits is made first: it has the objects that an assumption names.
"""

# public names of the package, by module.
PUBLIC = {"edits": "Edit", "hypothetical_plan": "plan_assumptions", "losses": "LossKind"}
