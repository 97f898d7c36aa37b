"""Plans, state and events as JSON, in the shapes that tools for Terraform read."""
