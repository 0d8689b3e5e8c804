"""What every output says of every example, as files to be compared with; `make golden` writes them anew."""
