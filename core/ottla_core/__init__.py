"""What the services and the SDK share. Imports nothing of ours but the contracts."""
