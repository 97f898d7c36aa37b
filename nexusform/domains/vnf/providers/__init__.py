"""Provider `tacker`: life cycle of VNFs through the interface of a VNFM (ETSI SOL003)."""
