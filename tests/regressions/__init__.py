"""What went wrong once: each story with the tests that tell it, and with the broken functions that make it so again."""
