"""Describe in one line the machine of a measurement."""

import os
import platform
import shutil
import subprocess


def machine() -> str:
    """Describe the machine of the measurement. Without jq the table has fewer rows."""
    bash = subprocess.run(
        ["bash", "-c", "printf %s $BASH_VERSION"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    words = [
        f"Python {platform.python_version()}",
        f"bash {bash}",
        f"Linux {platform.release()}",
        f"{os.cpu_count()} processors",
    ]
    if shutil.which("jq") is None:
        words.append("no jq: nothing to compare the shim with")
    return "Measured on: " + ", ".join(words) + "."
