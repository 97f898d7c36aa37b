"""Many sites at once: definition as data, one folded plan, one approved digest, waves."""
