"""The pages: rendered here, styled by one file, live by a stream of events, and whole without a script."""
