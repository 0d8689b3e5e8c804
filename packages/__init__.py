"""Packages, executables and man pages, made from this checkout.

Importing it under a Python that is too old exits with one line, before anything else is imported or
downloaded. This file, hatch_build.py and stage.py must therefore be valid in Python 3.9, the default of RHEL
9.
"""

import sys

NEEDED = (3, 11)

if sys.version_info < NEEDED:
    found, needed = (".".join(map(str, version)) for version in (sys.version_info[:3], NEEDED))
    sys.exit(
        f"found Python {found} ({sys.executable}); Python {needed} or newer is needed: install it "
        f"(dnf install python{needed}, apt-get install python{needed} python{needed}-venv), "
        "and run the same command with it"
    )
