"""How a script can end: each kind as a small script, run with the shim and judged by its record."""
