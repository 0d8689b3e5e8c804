"""Evidence: facts and lines of one host, each with its place, out of whatever files a source has. Pure."""
