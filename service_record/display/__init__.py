"""Output for people and programs: values become lines of text, documents and pages. Pure."""
