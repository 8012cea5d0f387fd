"""`ottla log`: tools for the files of logs, beside a running broker or on a copy of them without any."""
