"""The shipped library: the graders, prompts and schemas that come with the package, found by bare name.

A bare name is `rank_group` or, in a subfolder, `groupwise/system`: plain words with no suffix, no dot and no
leading slash, so a name can reach nothing outside the library. Files of the user's own are written as paths
(`./rank_group.yaml`) and are not looked up here.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

Kind = Literal["graders", "prompts", "schemas"]

_PACKAGE = Path(__file__).resolve().parents[1]
_BARE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(/[A-Za-z0-9_][A-Za-z0-9_-]*)*")


def library_folder(kind: Kind) -> Path:
    """The folder that holds the shipped files of one kind.

    An installed wheel carries it inside the package; in an editable install it is the folder of that name at
    the top of the repository.
    """
    installed = _PACKAGE / "library"
    return (installed if installed.is_dir() else _PACKAGE.parents[1]) / kind


def find_shipped(kind: Kind, name: str, suffixes: tuple[str, ...]) -> Path | None:
    """The shipped file of this bare name with the first of `suffixes` (".yaml") that exists, else None."""
    if _BARE_NAME.fullmatch(name) is None:
        return None
    folder = library_folder(kind)
    return next((path for suffix in suffixes if (path := folder / f"{name}{suffix}").is_file()), None)


def shipped_names(kind: Kind, suffixes: tuple[str, ...]) -> list[str]:
    """Every bare name that `find_shipped` knows, sorted; companions such as `x.golden.yaml` are not names."""
    folder = library_folder(kind)
    names = {
        path.relative_to(folder).as_posix().removesuffix(suffix)
        for suffix in suffixes
        for path in folder.rglob(f"*{suffix}")
    }
    return sorted(name for name in names if _BARE_NAME.fullmatch(name))
