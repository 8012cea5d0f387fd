"""Row F29: programs that consume, produce or copy are interrupted again and again: no record is left out."""
