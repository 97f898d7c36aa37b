"""Many sites at once: sites as data, one folded plan, one digest to approve, waves."""
