"""The proof that docker-compose.yml holds what it says, on a real Docker Engine."""
