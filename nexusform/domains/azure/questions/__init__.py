"""Questions of azure."""
