"""Nothing grows with what has ended: a cluster does N units of work and N more, and all it keeps is counted."""
