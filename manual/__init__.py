"""Man pages and shell completions, made of what the command line and its documents say already."""
