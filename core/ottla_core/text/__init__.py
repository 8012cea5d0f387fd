"""Makes text that others have written safe to show to people."""
