"""A server that receives the provisioning reports of many hosts, and shows which are stuck or have failed."""
