"""Untrusted text made safe to show: what could be taken for the harness's own marks becomes visible.

There is one form of escape, `⟨U+XXXX⟩`: the character with that code stood there. It replaces

- characters that a reader does not see or that reorder what is seen: controls, zero-width and bidirectional
  characters, tags, fillers, line separators, lone surrogates;
- the first character of anything that looks like a fence, a tag of a transcript, a chat template's control
  token or the header of a step, also in full-width, mathematical, Cyrillic or Greek look-alikes;
- `⟨` and `⟩` themselves, so that what stands between them was always written by the harness.

`visible` therefore loses nothing: two texts that differ stay different, and `original` gives the text back.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

STEP_ROLES = ("assistant", "user", "system", "developer", "tool", "call", "result", "text", "prompt", "column", "role")
"""The words that a step's header begins with; see `steps`."""

FENCE_NAMES = ("rollout", "failed-rollout", "task-data")
"""The names of the fences around data."""

TRANSCRIPT_TAGS = ("tool_call", "tool_response", "user", "system")
"""The tags in which `core.rollout` writes a completion as text."""


def visible(text: str, *, keep_transcript_tags: bool = False) -> str:
    """`text` with every unseen character and every look-alike of a mark as `⟨U+XXXX⟩`.

    Newlines and tabs stay. `keep_transcript_tags` leaves `TRANSCRIPT_TAGS` as they are: in a rollout that has
    no messages they are the only structure there is.
    """
    kept = TRANSCRIPT_TAGS if keep_transcript_tags else ()
    starts = [found.start for found in look_alikes(text) if found.word not in kept]
    if starts:
        pieces, last = [], 0
        for start in starts:
            pieces += [_UNSEEN.sub(_escape, text[last:start]), _code(text[start])]
            last = start + 1
        return "".join(pieces) + _UNSEEN.sub(_escape, text[last:])
    return (_UNSEEN_ASCII if text.isascii() else _UNSEEN).sub(_escape, text)


def original(shown: str) -> str:
    """The text that `visible` was given, from what it returned."""
    return _CODE.sub(lambda match: chr(int(match[1], 16)), shown)


def without_unseen(text: str) -> str:
    """`text` without the characters that a reader does not see; newlines and tabs stay."""
    return _UNSEEN.sub(lambda match: "" if match[0] not in "⟨⟩" and _escape(match) != match[0] else match[0], text)


class LookAlike(NamedTuple):
    """A place in a text that looks like a mark.

    Attributes:
        start: where the mark would begin.
        kind: `fence`, `tag`, `control` (a token of a chat template) or `step` (the header of a step).
        word: what is imitated, in plain lower case: the name of the fence or tag, or the first characters of the
            token or header.
    """

    start: int
    kind: str
    word: str


def look_alikes(text: str) -> Iterator[LookAlike]:
    """Everything in `text` that looks like a mark, in order."""
    plain = text if text.isascii() or _FIRST.search(text) is None else text.translate(_PLAIN)
    for found in _FIRST.finditer(text):
        start = found.start()
        match = _MARK.match(plain, start)
        if match is None or (match["step"] and not _begins_a_line(text, start)):
            continue
        kind = next(kind for kind in ("fence", "tag", "control", "step") if match[kind])
        word = match["fence_name"] or match["tag_name"] or plain[start : start + 40]
        yield LookAlike(start, kind, word.lower())


def _begins_a_line(text: str, start: int) -> bool:
    """Whether nothing but a few quotation marks and spaces stands before `start` on its line."""
    line = text.rfind("\n", max(start - 9, 0), start) + 1
    return (line > 0 or start < 9) and not text[line:start].strip(" \t>*|")


def _escape(match: re.Match[str]) -> str:
    """The code of the character; the selector of emoji is left alone where it belongs, after a symbol."""
    if match[0] == "\ufe0f" and match.start() and _SYMBOL.match(match.string, match.start() - 1):
        return match[0]
    return _code(match[0])


def _code(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


_CODE = re.compile(r"⟨U\+([0-9A-F]{4,6})⟩")

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u27e8\u27e9\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_UNSEEN_ASCII = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_SYMBOL = re.compile("[\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff#*0-9]")


def _plain_characters() -> dict[int, str]:
    """Look-alikes of ASCII, each with the one character that it imitates."""
    table = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}  # full-width forms
    for code in (*range(0x1D400, 0x1D800), *range(0x2100, 0x2140), *range(0x24B6, 0x24EA)):  # mathematical, circled
        folded = unicodedata.normalize("NFKC", chr(code))
        if len(folded) == 1 and folded.isascii():
            table[code] = folded
    for imitated, characters in {
        "<": "‹〈⟨❮˂≺⧼ᐸ﹤«〈",
        ">": "›〉⟩❯˃≻⧽ᐳ﹥»〉",
        "|": "❘│┃∣ǀ¦",
        "/": "⁄∕╱⧸",
        "-": "‐‑‒–—―−﹣",
        "_": "﹍﹎﹏‗▁",
        "#": "﹟⌗",
        "[": "⟦【〚",
        "]": "⟧】〛",
    }.items():
        table |= {ord(character): imitated for character in characters}
    table |= dict(zip(map(ord, "аеорсухіјѕԁһԛԝӏкмтвн"), "aeopcyxijsdhqwlkmtbh", strict=True))
    table |= dict(zip(map(ord, "АВЕКМНОРСТУХІЈЅ"), "ABEKMHOPCTYXIJS", strict=True))
    table |= dict(zip(map(ord, "αενικορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"), "aevikoptuxABEZHIKMNOPTYX", strict=True))
    table |= dict(zip(map(ord, "ıɡɑ"), "iga", strict=True))
    return table


_PLAIN = _plain_characters()

_FENCE = "|".join(FENCE_NAMES)
_STEP = "|".join(STEP_ROLES)
_MARK = re.compile(
    rf"""
      (?P<fence><)(?=\s{{0,8}}/?\s{{0,8}}(?P<fence_name>{_FENCE})\b)
    | (?P<tag><)(?=\s{{0,8}}/?\s{{0,8}}(?P<tag_name>
          tool_calls?|tool_(?:response|result|output)s?|function_(?:call|result)s?|user|system|assistant|developer|human)\b)
    | (?P<control>[<\[])(?=\||<sys>>|(?<=<)/?(?:s|bos|eos|pad)>|(?<=<)(?:start|end)_of_turn>
                         |(?<=\[)/?(?:inst|tool_results|tool_calls|available_tools|system_prompt)\])
    | (?P<step>\#)(?=\d{{1,6}}\s{{1,4}}\+?\s?(?:{_STEP})\b[^:\n]{{0,120}}:)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_FIRST = re.compile(f"[{re.escape('<[#' + ''.join(chr(code) for code, plain in _PLAIN.items() if plain in '<[#'))}]")
