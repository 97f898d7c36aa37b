"""VNFs of OpenStack Tacker: TOSCA descriptors, HOT templates, and packages of both."""

# Public names of the package, by module.
PUBLIC = {"vnf_records": "MACHINE PlacementRule Vdu Vnf"}
