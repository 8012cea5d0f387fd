"""Row F29: programs that consume are interrupted, again and again, and no record may be left out."""
