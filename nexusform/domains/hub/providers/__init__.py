"""The provider that acts on a hub."""
