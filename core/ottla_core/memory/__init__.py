"""What a process keeps of its memory, and how it finds what nothing refers to any more."""
