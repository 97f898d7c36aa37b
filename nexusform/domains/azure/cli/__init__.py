"""Commands of azure: inventory, predict, reconcile."""
