"""``python -m bagwise`` is the command ``bagwise``."""

from bagwise.cli import main

if __name__ == "__main__":
    main()
