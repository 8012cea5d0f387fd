"""`python -m ottla` is `ottla`."""

from ottla_cli.main import main

main()
