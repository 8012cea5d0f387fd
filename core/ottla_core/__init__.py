"""The code that the services and the SDK share. Of ottla's own packages it imports only the contracts."""
