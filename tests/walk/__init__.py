"""What a new user does first: the lines of the README and the programs of docs/use/sdk.md, in a clean environment."""
