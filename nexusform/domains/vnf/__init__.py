"""VNFs: what TOSCA and HOT files ask of machines and of one another."""
