# The user data class of Tacker with one zone for each VM.
from tacker.sol_refactored.infra_drivers.openstack import userdata_standard

StandardUserData = userdata_standard.StandardUserData
