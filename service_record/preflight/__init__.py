"""What must hold before a host is installed: checks with their words (pure), and probes that measure."""
