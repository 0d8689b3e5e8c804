"""Follow records while services write them."""
