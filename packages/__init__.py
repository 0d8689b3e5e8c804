"""Packagers' tools: the files of `service-record install` in a directory tree, and packages of them."""
