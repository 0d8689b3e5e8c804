"""The collector's HTTP interface: what hosts report, and what readers ask."""
