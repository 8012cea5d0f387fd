"""How a broker looks after its data directory: opened and closed with the process, kept in order, watched for room."""
