"""Sources of records: directories, files, bundles, standard input and collectors."""
