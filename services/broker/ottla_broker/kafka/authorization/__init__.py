"""Who may do what: the rights that requests need, and the rights that a client has."""
