"""Where records are read from: directories, files, bundles, standard input and collectors."""
