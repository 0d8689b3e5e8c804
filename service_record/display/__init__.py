"""What people and programs see of records: pure functions from values to lines of text."""
