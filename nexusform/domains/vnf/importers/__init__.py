"""VNFs of OpenStack Tacker: TOSCA descriptors, HOT templates, and packages of both."""
