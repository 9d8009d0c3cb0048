"""Shell scripts taken apart into simple commands, as far as reading them allows.

Quotes, redirections, here-documents, `cd`, subshells, loops and `bash -c` are followed; variables, globs and
substitutions inside quotes stay as they are written. Nothing is executed, and no input raises.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Redirection(NamedTuple):
    """Output that goes to a file."""

    path: str
    append: bool


class Command(NamedTuple):
    """One simple command.

    Attributes:
        words: the program and its arguments, without wrappers such as `sudo` and `timeout 60`.
        outputs: files that its output goes to.
        stdin: the text of a here-document, None without one.
        folder: the folder that `cd` has led to, "" at the beginning.
    """

    words: tuple[str, ...]
    outputs: tuple[Redirection, ...]
    stdin: str | None
    folder: str

    def path(self, written: str) -> str:
        """A path of this command's, normalised; relative ones start at its folder."""
        return normal_path(posixpath.join(self.folder, written))


def simple_commands(script: str, folder: str = "", depth: int = 0) -> list[Command]:
    """Every simple command of a script, in the order of the text."""
    documents: list[str] = []
    tokens = _tokens(_without_documents(script.replace("\x00", ""), documents))
    found: list[Command] = []
    for words, outputs, stdin in _split(tokens, documents):
        command = Command(_unwrapped(words), tuple(outputs), stdin, folder)
        if not command.words and not outputs:
            continue
        if command.words[:1] == ("cd",) and len(command.words) > 1:
            folder = command.path(command.words[1])
        inner = _inner_script(command)
        if inner is not None and depth < MAX_DEPTH:
            found += simple_commands(inner, folder, depth + 1)
        else:
            found.append(command)
    return found


def normal_path(path: str) -> str:
    """A path without `./`, doubled slashes and inner `..`."""
    return posixpath.normpath(path.strip()) if path.strip() else ""


MAX_DEPTH = 4
"""Levels of `bash -c` inside `bash -c`."""

_DOCUMENT = re.compile(r"(?<!<)<<(?!<)(-?)\s*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([A-Za-z_][\w.-]*))")
_MARK = "\x00document"
_PUNCTUATION = ";&|<>()`\n"
_KEYWORDS = frozenset({"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "time"})
_WRAPPERS = frozenset({"sudo", "env", "nohup", "command", "exec", "xargs", "stdbuf", "nice", "timeout", "builtin"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ash", "ksh"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


def _without_documents(script: str, documents: list[str]) -> str:
    """The script with each here-document taken out and a mark in its place."""
    lines = script.replace("\\\n", " ").split("\n")
    kept: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        for match in list(_DOCUMENT.finditer(line)):
            end = match[2] or match[3] or match[4]
            stop = next((n for n in range(number, len(lines)) if lines[n].strip() == end), None)
            if stop is None:
                continue
            line = line.replace(match[0], f" {_MARK}{len(documents)} ", 1)
            documents.append("\n".join(lines[number:stop]) + "\n")
            number = stop + 1
        kept.append(line)
    return "\n".join(kept)


def _with_documents(word: str, documents: Sequence[str]) -> str:
    """A quoted script with its here-documents put back behind the lines that they belong to."""
    lines: list[str] = []
    for line in word.split("\n"):
        numbers = [int(number) for number in re.findall(rf"{_MARK}(\d+)", line)]
        for number in numbers:
            line = line.replace(f"{_MARK}{number}", f"<<'END{number}'")
        lines += [line, *(f"{documents[number]}END{number}" for number in numbers)]
    return "\n".join(lines)


def _tokens(script: str) -> list[str]:
    """Words and runs of punctuation. Where a quote never closes, each line is taken by itself."""
    try:
        return _words(script)
    except ValueError:
        pass
    found: list[str] = []
    for line in script.split("\n"):
        try:
            found += _words(line)
        except ValueError:
            found += line.replace("'", " ").replace('"', " ").split()
        found.append("\n")
    return found


def _words(text: str) -> list[str]:
    reader = shlex.shlex(text, posix=True, punctuation_chars=_PUNCTUATION)
    reader.whitespace, reader.whitespace_split, reader.commenters = " \t\r", True, ""
    return list(reader)


def _split(
    tokens: Sequence[str], documents: Sequence[str]
) -> Iterator[tuple[list[str], list[Redirection], str | None]]:
    """Words, outputs and here-document of each simple command."""
    words: list[str] = []
    outputs: list[Redirection] = []
    stdin: str | None = None
    comment = False
    redirect = ""
    for token in [*tokens, "\n"]:
        separator = bool(token) and all(character in _PUNCTUATION for character in token)
        if comment and not (separator and "\n" in token):
            continue
        comment = not separator and token.startswith("#")
        if comment:
            continue
        if separator and ("<" in token or ">" in token):
            if words and words[-1].isdigit() and ">" in token:
                words.pop()  # 2>file
            redirect = token
        elif separator:
            yield words, outputs, stdin
            words, outputs, stdin, redirect = [], [], None, ""
        elif token.startswith(_MARK):
            stdin = documents[int(token.removeprefix(_MARK))]
        elif _MARK in token:
            words.append(_with_documents(token, documents))
        elif redirect:
            if ">" in redirect and not (redirect.endswith("&") and (token.isdigit() or token == "-")):
                outputs.append(Redirection(token, ">>" in redirect))
            redirect = ""
        else:
            words.append(token)


def _unwrapped(words: Sequence[str]) -> tuple[str, ...]:
    """Words without keywords, assignments and wrapping programs before the program itself."""
    left = list(words)
    while left:
        first = posixpath.basename(left[0])
        if left[0] in _KEYWORDS or _ASSIGNMENT.fullmatch(left[0]):
            left.pop(0)
        elif left[0] == "for" and "in" in left:
            return ()
        elif first in _WRAPPERS and len(left) > 1:
            left.pop(0)
            while left and (left[0].startswith("-") or re.fullmatch(r"\d+[smh]?", left[0])):
                left.pop(0)
        else:
            return (first, *left[1:])
    return ()


def _inner_script(command: Command) -> str | None:
    """The script that a shell is given to run."""
    if not command.words or command.words[0] not in _SHELLS:
        return None
    for position, word in enumerate(command.words[1:], 1):
        if re.fullmatch(r"-[a-z]*c", word) and position + 1 < len(command.words):
            return command.words[position + 1]
        if not word.startswith("-"):
            return None
    return command.stdin
