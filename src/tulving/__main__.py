"""`python -m tulving`: the same as the command `tulving`."""

from tulving.interfaces.cli import main

main()
