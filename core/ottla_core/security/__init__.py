"""Who a client is, and what it may do: logins (SASL) with their credentials, and access control lists."""
