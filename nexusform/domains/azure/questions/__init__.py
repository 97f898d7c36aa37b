"""Questions about Azure sites: comparison with state, replay."""
