"""`python -m runlore` is `runlore`."""

from .cli import main

if __name__ == "__main__":
    main()
