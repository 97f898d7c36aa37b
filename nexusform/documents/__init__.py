"""Foreign documents as text with places: what every reader of them needs."""
