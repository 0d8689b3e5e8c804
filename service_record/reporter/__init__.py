"""The boot reporter: how far a host came and why it came no further, told to where somebody can see it."""
