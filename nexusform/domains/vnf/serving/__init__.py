"""Server of the NFVO interfaces of ETSI SOL003: grants from a plan, and VNF packages."""
