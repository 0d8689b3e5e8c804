"""Work on what hosts sent: opening bundles, judging records, sending notices, and deleting."""
