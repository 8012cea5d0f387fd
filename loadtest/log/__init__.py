"""What logs cost that were written long ago: cleaned, checked, opened again, looked into by time, held as a table."""
