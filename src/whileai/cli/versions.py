"""What `whileai --version` says, and whether another package of the same import name is in the way."""

from __future__ import annotations

from whileai import __version__


def version_text() -> str:
    """The version of this package, and a warning line if the other `whileai` is installed beside it."""
    return "\n".join(filter(None, [f"whileai-graders {__version__}", other_whileai()]))


def other_whileai() -> str | None:
    """A warning when the distribution `whileai` is installed in this environment too, else None.

    Both install the import name `whileai`, so each overwrites files of the other.
    """
    from importlib import metadata

    try:
        found = metadata.version("whileai")
    except metadata.PackageNotFoundError:
        return None
    return (
        f"The package whileai {found} is installed in this environment too. It has the same import name, so "
        "each overwrites files of the other: give each an environment of its own."
    )
