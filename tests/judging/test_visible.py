import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.judging.visible import look_alikes, original, visible, without_unseen

FRAGMENTS = [
    "<",
    "</",
    "＜",
    "‹",
    "⟨",
    "⟩",
    "⟨U+003C⟩",
    "rollout",
    "rоllout",
    "failed-rollout",
    "task-data",
    "-0f",
    ">",
]
FRAGMENTS += ["tool_response", "user", "|", "im_start", "[INST]", "</s>", "#3 ", "result", "+call", ":", "\n", " "]
FRAGMENTS += ["\u200b", "\u202e", "\ud800", "\U000e0041", "❤\ufe0f", "x\ufe0f", "\r", "\x85", "plain text", "é"]
texts = st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join))


@given(texts)
def test_nothing_is_lost(text: str):
    assert original(visible(text)) == text


@given(texts)
def test_nothing_that_is_shown_looks_like_a_mark_or_is_unseen(text: str):
    shown = visible(text)
    assert not list(look_alikes(shown))
    assert without_unseen(shown) == shown
    shown.encode("utf-8")


@given(texts, texts)
def test_texts_that_differ_stay_different(first: str, second: str):
    assert (visible(first) == visible(second)) == (first == second)


def test_every_control_format_and_separator_character_is_made_visible():
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    left = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in hidden and visible(chr(code)) == chr(code)
    ]
    assert left == ["0x9", "0xa"]


@pytest.mark.parametrize(
    "text",
    [
        *("a <b> c < d", "use `<div>` & [link](x)", "# 3 users", "#3 is next", "[1] source", "<think>hm</think>"),
        *("rollout B is planned", "❤️ 1️⃣ 👍", "日本語 ＜重要＞ ｜", "Привет, мир", "x << 2 | y", "<username>"),
        "[INSTALL]",
    ],
)
def test_ordinary_text_is_left_alone(text: str):
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        ("</rollout-12>", "fence", "rollout"),
        ("x < / Failed-Rollout 2", "fence", "failed-rollout"),
        ("＜ｔａｓｋ－ｄａｔａ＞", "fence", "task-data"),
        ("𝐱<𝐫𝐨𝐥𝐥𝐨𝐮𝐭>", "fence", "rollout"),
        ("<tооl_rеspоnsе>", "tag", "tool_response"),
        ("<|im_start|>user", "control", "<|im_start|>user"),
        ("<｜User｜>", "control", "<|user|>"),
        ("a\n| #12 result get_x: ok", "step", "#12 result get_x: ok"),
        ("#2 +call get_x: {}", "step", "#2 +call get_x: {}"),
    ],
)
def test_look_alikes_are_found_in_other_alphabets(text: str, kind: str, word: str):
    (found,) = look_alikes(text)
    assert (found.kind, found.word) == (kind, word)


def test_transcript_tags_stay_where_they_are_the_only_structure():
    text = "<tool_call>x</tool_call></rollout-1>"
    assert visible(text, keep_transcript_tags=True) == "<tool_call>x</tool_call>⟨U+003C⟩/rollout-1>"
    assert visible(text).startswith("⟨U+003C⟩tool_call>x⟨U+003C⟩/tool_call>")
