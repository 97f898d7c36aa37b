"""Records of sites: definition, tasks and results of workers, fleet plan."""
