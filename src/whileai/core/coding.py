"""What a coding agent did: files read, written and deleted, addresses fetched, commands run.

Read out of the tool calls of `messages`, by the shape of their arguments rather than by the name of one
framework's tools: shells (`command`, `cmd`, `script`), editors (`view`, `create`, `str_replace`, `insert`),
readers and writers (`path` with or without content), patches, Python given to an interpreter, and fetchers
(`url`). What a shell variable or a glob stands for is not known, and neither is what a program does inside.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from whileai.core.rollout import ToolCall, events
from whileai.core.shell import Command, normal_path, simple_commands

Verb = Literal["read", "write", "delete", "fetch", "undo", "run"]


class Action(NamedTuple):
    """One thing that a tool call did.

    Attributes:
        verb: what was done.
        target: the path (normalised), the address, or the command as text.
        removed: text that a write took out; "" for none, None if that cannot be seen.
        added: text that a write put in, or the script that made it; None if that cannot be seen.
        whole: the write made the file's whole content.
        step: number of the tool call, from 0.
        result: what the tool answered; None if nothing.
    """

    verb: Verb
    target: str
    removed: str | None = None
    added: str | None = None
    whole: bool = False
    step: int = 0
    result: str | None = None

    @property
    def worked(self) -> bool:
        """Whether the tool's answer does not say that this failed."""
        text = (self.result or "").strip()
        return len(text) > _LONG_ANSWER or _FAILED.search(text) is None


def coding_actions(messages: Sequence[Any]) -> list[Action]:
    """Everything that the tool calls in `messages` did, in order. Never raises on JSON-like messages."""
    calls: list[ToolCall] = []
    results: dict[int, str] = {}
    for kind, value in events(messages):
        if kind == "call":
            calls.append(value)
        elif kind == "result":
            open_calls = [step for step in range(len(calls)) if step not in results]
            same = [step for step in open_calls if value.id is not None and calls[step].id == value.id]
            if same or open_calls:
                results[(same or open_calls)[0]] = value.content
    return [
        action._replace(step=step, result=results.get(step))
        for step, call in enumerate(calls)
        for action in _actions_of(call)
    ]


_FAILED = re.compile(
    r"^(?:error|fatal|failed|traceback)\b|no such file|not found|permission denied|could not resolve|unable to access"
    r"|network is unreachable|connection refused|timed out|no replacement was performed|did not appear verbatim",
    re.IGNORECASE,
)
_LONG_ANSWER = 600
"""Characters: what is longer than this holds more than an error message."""

_PATH_KEYS = ("path", "file_path", "filepath", "filename", "file", "target_file", "file_name", "absolute_path")
_SCRIPT_KEYS = ("command", "cmd", "script", "commands", "shell_command", "bash")
_CONTENT_KEYS = ("file_text", "content", "contents", "text", "new_content", "file_content", "source")
_OLD_KEYS = ("old_str", "old_string", "old_text", "search", "old", "original_text")
_NEW_KEYS = ("new_str", "new_string", "new_text", "replace", "new", "replacement", "insert_text")
_EDITOR_VERBS = frozenset(
    {"view", "create", "str_replace", "insert", "undo_edit", "write", "append", "edit", "read", "delete", "open"}
)
_SHELL_LIST = re.compile(r"-[a-z]*c")
_PATCH = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: |^--- (?:a/|/dev/null)|^diff --git ", re.MULTILINE)
_DELETING = re.compile(r"delete|remove|unlink", re.IGNORECASE)
_APPENDING = re.compile(r"append|insert", re.IGNORECASE)


def _actions_of(call: ToolCall) -> Iterator[Action]:
    arguments = call.arguments if isinstance(call.arguments, Mapping) else {"input": call.arguments}
    given = {str(key).casefold(): value for key, value in arguments.items()}
    for text in given.values():
        if isinstance(text, str) and _PATCH.search(text) and not _is_script(given, text):
            yield from patch_actions(text)
            return
    path = _first(given, _PATH_KEYS)
    verb = given.get("command")
    if isinstance(path, str) and path:
        yield from _editor_actions(call.name, verb if isinstance(verb, str) else "", normal_path(path), given)
        return
    script = _first(given, _SCRIPT_KEYS)
    if isinstance(script, (list, tuple)):
        words = [str(word) for word in script]
        script = words[2] if len(words) > 2 and _SHELL_LIST.fullmatch(words[1]) else " ".join(words)
    if isinstance(script, str):
        yield from shell_actions(script)
    code = given.get("code")
    if isinstance(code, str):
        yield from code_actions(code)
    for key in ("url", "uri", "urls", "link"):
        value = given.get(key)
        for address in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(address, str) and address:
                yield Action("fetch", address)


def _is_script(given: Mapping[str, Any], text: str) -> bool:
    return any(given.get(key) is text for key in _SCRIPT_KEYS)


def _first(given: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((given[key] for key in keys if given.get(key) not in (None, "")), None)


def _editor_actions(tool: str, verb: str, path: str, given: Mapping[str, Any]) -> Iterator[Action]:
    """What an editor, a reader or a writer did to one file."""
    edits = given.get("edits")
    pairs = [edit for edit in edits if isinstance(edit, Mapping)] if isinstance(edits, (list, tuple)) else []
    old, new = _first(given, _OLD_KEYS), _first(given, _NEW_KEYS)
    content = _first(given, _CONTENT_KEYS)
    does = verb or tool
    if pairs:
        for edit in pairs:
            yield _replacement(path, _first(edit, _OLD_KEYS), _first(edit, _NEW_KEYS))
    elif "undo" in does:
        yield Action("undo", path)
    elif _DELETING.search(does):
        yield Action("delete", path)
    elif verb == "view" or verb == "read":
        yield Action("read", path)
    elif old is not None:
        yield _replacement(path, old, new)
    elif new is not None or (content is not None and _APPENDING.search(does)):
        yield _replacement(path, "", new if new is not None else content)
    elif content is not None or verb == "create":
        yield Action("write", path, None, str(content or ""), whole=True)
    elif verb and verb not in _EDITOR_VERBS:
        yield from shell_actions(verb, path)
    else:
        yield Action("read", path)


def _replacement(path: str, old: Any, new: Any) -> Action:
    return Action("write", path, "" if old is None else str(old), "" if new is None else str(new))


def patch_actions(text: str) -> list[Action]:
    """The writes and deletions of a patch, in the unified form or in that of `*** Begin Patch`."""
    found: list[Action] = []
    path, whole = "", False
    removed: list[str] = []
    added: list[str] = []

    def finish() -> None:
        if path:
            found.append(Action("write", path, "\n".join(removed), "\n".join(added), whole))
        removed.clear()
        added.clear()

    before = ""
    for line in text.splitlines():
        header = re.match(r"\*\*\* (Update|Add|Delete) File: (.+)", line)
        if header:
            finish()
            path, whole = normal_path(header[2]), header[1] == "Add"
            if header[1] == "Delete":
                found.append(Action("delete", path))
                path = ""
        elif line.startswith("--- "):
            finish()
            path, before = "", _patch_path(line)
        elif line.startswith("+++ ") and before:
            path, whole = _patch_path(line), before == "/dev/null"
            if path == "/dev/null":
                found.append(Action("delete", before))
                path = ""
        elif line.startswith("-") and path:
            removed.append(line[1:])
        elif line.startswith("+") and path:
            added.append(line[1:])
    finish()
    return found


def _patch_path(line: str) -> str:
    path = line[4:].split("\t")[0].strip()
    return path if path == "/dev/null" else normal_path(re.sub(r"^[ab]/", "", path))


def shell_actions(script: str, folder: str = "") -> list[Action]:
    """What the simple commands of a script did, each also as a `run`."""
    found: list[Action] = []
    for command in simple_commands(script, folder):
        found.append(Action("run", " ".join(command.words)))
        found += _command_actions(command)
        text = command.stdin if command.words[:1] in (("cat",), ("echo",), ("printf",)) else None
        if text is None and command.words[:1] in (("echo",), ("printf",)):
            text = " ".join(command.words[1:])
        for output in command.outputs:
            if not output.path.startswith("/dev/"):
                removed = "" if output.append else None
                found.append(Action("write", command.path(output.path), removed, text, whole=not output.append))
    return found


def _command_actions(command: Command) -> Iterator[Action]:
    if not command.words:
        return
    program, *rest = command.words
    files = [command.path(word) for word in rest if not word.startswith("-")]
    flags = [word for word in rest if word.startswith("-")]
    if program in _READERS:
        yield from (Action("read", path) for path in (files[1:] if program in _PATTERN_FIRST else files))
    elif program in ("sed", "perl") and any(re.match(r"-[a-z]*i|--in-place", flag) for flag in flags):
        yield from _in_place(command, rest)
    elif program == "tee":
        appends = "-a" in flags or "--append" in flags
        yield from (Action("write", path, "" if appends else None, command.stdin, whole=not appends) for path in files)
    elif program in ("rm", "unlink", "rmdir"):
        yield from (Action("delete", path) for path in files)
    elif program in ("cp", "mv", "install", "rsync", "ln") and len(files) > 1:
        *sources, last = files
        into = len(sources) > 1 or rest[-1].endswith("/") or not posixpath.splitext(last)[1]
        for path in sources:
            yield Action("delete" if program == "mv" else "read", path)
            yield Action("write", posixpath.join(last, posixpath.basename(path)) if into else last, whole=True)
    elif program == "git":
        yield from _git_actions(command, rest)
    elif program in ("curl", "wget", "http", "aria2c"):
        yield from (Action("fetch", word) for word in rest if re.match(r"(?:https?:)?//|[\w.-]+\.\w+/", word))
    elif program in ("patch", "apply_patch"):
        yield from patch_actions(command.stdin or " ".join(rest))
    elif re.fullmatch(r"(?:python|pypy|node|ruby)[\d.]*", program):
        inline = [rest[n + 1] for n, word in enumerate(rest[:-1]) if word in ("-c", "-e")]
        for code in inline or ([command.stdin] if command.stdin else []):
            yield from code_actions(code, command)


_READERS = frozenset(
    {"cat", "head", "tail", "less", "more", "nl", "grep", "rg", "ag", "awk", "bat", "strings", "xxd", "od", "diff"}
)
_PATTERN_FIRST = frozenset({"grep", "rg", "ag", "awk"})


def _in_place(command: Command, rest: Sequence[str]) -> Iterator[Action]:
    """`sed -i` and `perl -pi`: a substitution shows what it takes out and puts in, other edits do not."""
    words = list(rest)
    expressions = [words.pop(n + 1) for n in range(len(words) - 2, -1, -1) if words[n] in ("-e", "--expression")]
    plain = [word for word in words if not re.match(r"-(?!$)", word)]
    if not expressions and plain:
        expressions = [plain.pop(0)]
    parts = [re.match(r"^(?:[\d,$]*|/[^/]*/)s(.)(.*?)(?<!\\)\1(.*?)(?<!\\)\1\w*$", e, re.DOTALL) for e in expressions]
    seen = [part for part in parts if part]
    for path in plain:
        if len(seen) == len(expressions):
            old, new = "\n".join(part[2] for part in seen), "\n".join(part[3] for part in seen)
            yield Action("write", command.path(path), old, new)
        else:
            yield Action("write", command.path(path), None, "\n".join(expressions))


def _git_actions(command: Command, rest: Sequence[str]) -> Iterator[Action]:
    words = [word for word in rest if not word.startswith("-")]
    if words[:1] == ["rm"]:
        yield from (Action("delete", command.path(word)) for word in words[1:])
    elif words[:1] == ["mv"] and len(words) == 3:
        yield Action("delete", command.path(words[1]))
        yield Action("write", command.path(words[2]), whole=True)
    elif words[:1] == ["apply"] and command.stdin:
        yield from patch_actions(command.stdin)
    elif words[:1] in (["clone"], ["fetch"], ["pull"], ["ls-remote"]):
        yield Action("fetch", " ".join(["git", *words]))


def code_actions(code: str, command: Command | None = None) -> list[Action]:
    """Files that a piece of Python or JavaScript opens, writes or removes by a written-out name."""

    def path(text: str) -> str:
        return command.path(text) if command else normal_path(text)

    read = [path(match[2]) for match in _OPEN_TO_READ.finditer(code)]
    found = [Action("read", name) for name in read]
    for match in _OPEN_TO_WRITE.finditer(code):
        name = path(match[2])
        found.append(Action("write", name, None, code, whole=match[3] in "wx" and name not in read))
    for match in _WRITES.finditer(code):
        name = path(match[2] or match[4])
        found.append(Action("write", name, None, code, whole=name not in read))
    found += [Action("delete", path(match[2])) for match in _REMOVES.finditer(code)]
    if re.search(r"\b(?:requests|urllib|urlopen|httpx|aiohttp|fetch|axios)\b", code):
        found += [Action("fetch", address) for address in re.findall(r"https?://[^\s'\"\\)]+", code)]
    for match in re.finditer(r"(?:os\.system|subprocess\.\w+|check_output|popen)\(\s*f?(['\"])(.+?)\1", code):
        found += shell_actions(match[2], command.folder if command else "")
    for line in re.findall(r"^\s*!(.+)$", code, re.MULTILINE):
        found += shell_actions(line)
    return found


_QUOTED = r"[rbuf]*(['\"])([^'\"\n]+)\1"
_OPEN_TO_WRITE = re.compile(rf"\bopen\(\s*{_QUOTED}\s*,\s*(?:mode\s*=\s*)?['\"]([wax]|r\+)")
_OPEN_TO_READ = re.compile(
    rf"\b(?:open|Path|readFileSync)\(\s*{_QUOTED}\s*(?:,\s*(?:mode\s*=\s*)?['\"]rb?['\"]|,\s*encoding|,\s*['\"]utf|\)(?!\s*\.\s*write))"
)
_WRITES = re.compile(
    rf"(?:Path\(\s*{_QUOTED}\s*\)\s*\.\s*write_(?:text|bytes)|writeFileSync\(\s*[rbuf]*(['\"])([^'\"\n]+)\3)"
)
_REMOVES = re.compile(rf"(?:os\.(?:remove|unlink)|rmtree|unlinkSync)\(\s*{_QUOTED}")
