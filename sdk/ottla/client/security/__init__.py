"""How a client logs in, and how it encrypts its connections (docs/adr/0029)."""
