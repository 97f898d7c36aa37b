"""Preparation of what-if questions."""

# Public names of the package, by module.
PUBLIC = {
    "simulation_input": "SimulationInput read_project_input",
    "observation_uncertainty": "add_observation_doubts",
}
