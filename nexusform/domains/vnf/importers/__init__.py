"""VNFs as OpenStack Tacker has them: TOSCA descriptors, HOT templates, and packages of both."""
