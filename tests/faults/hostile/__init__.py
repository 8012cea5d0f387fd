"""Clients that announce and send nothing, ask and do not read, or repeat themselves, beside those that do no harm."""
