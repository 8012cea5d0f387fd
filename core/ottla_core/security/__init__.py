"""Who a client is: credentials, and the logins (SASL) by which clients prove that they know them."""
