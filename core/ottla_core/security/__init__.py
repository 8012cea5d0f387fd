"""This package decides who a client is and what it may do, by logins (SASL), credentials and access control lists."""
