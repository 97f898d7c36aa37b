"""What stands beside the engine, each domain whole in one place."""
