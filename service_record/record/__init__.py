"""The format of records: entries, their lines and layouts, damage and its recovery, and appending to them."""
