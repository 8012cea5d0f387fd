"""A broker looks after its data directory: it opens and closes it with the process, keeps it in order, and watches its
room."""
