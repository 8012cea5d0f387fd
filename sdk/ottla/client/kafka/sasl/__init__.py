"""The mechanisms of SASL, each as a conversation without a socket (docs/adr/0029)."""
