"""Partitions as this broker leads or follows them: appends, fetches, high watermark, ISR, copying from leaders."""
