"""What people and programs see of records: values become lines of text, documents and pages. Pure."""
