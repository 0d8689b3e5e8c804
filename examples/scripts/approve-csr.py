#!/venv/bin/python
"""Approve the certificates of hosts that join, until the bootstrap is done."""

import subprocess
import time
from pathlib import Path

import service_record

API_IS_READY = ["oc", "get", "--raw", "/readyz"]
DONE = Path("/opt/openshift/.bootkube.done")

with service_record.service("approve-csr"):
    with service_record.stage("wait-for-api"):
        while subprocess.run(API_IS_READY, check=False).returncode:
            time.sleep(0.5)
    with service_record.stage("approve"):
        while not DONE.exists():
            time.sleep(0.1)
