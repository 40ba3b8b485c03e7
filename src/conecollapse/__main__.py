"""``python -m conecollapse``: the command."""

from conecollapse.cli import main

if __name__ == "__main__":
    main()
