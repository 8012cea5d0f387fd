"""Who may do what: the rights that requests need, and what the client of a request has."""
