"""`python -m untwine` is the command `untwine`."""

import sys

from untwine.cli import main

if __name__ == "__main__":
    sys.exit(main())
