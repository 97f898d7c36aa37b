"""Entry point of `python -m nexusform`."""

from nexusform.cli.main import main

main()
