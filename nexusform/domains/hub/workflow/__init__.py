"""Taking a hub over as it stands."""
