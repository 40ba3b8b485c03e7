"""``python -m conecollapse.cli``."""

from conecollapse.cli import main

main()
