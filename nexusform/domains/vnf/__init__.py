"""VNFs: VM demands and placement rules from TOSCA and HOT documents."""
