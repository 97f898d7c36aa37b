"""What is to be said of VMs once all are placed: how sure, what does not fit, which rules hold."""
