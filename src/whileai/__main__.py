"""`python -m whileai`: the `whileai` command."""

from whileai.cli import main

if __name__ == "__main__":
    main()
