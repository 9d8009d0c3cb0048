import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.errors import UnusableVerdict
from whileai.judging.reply import KINDS, json_objects, read_object
from whileai.judging.schemas import reply_schema, validator, with_own_fields

GOOD = {"rationale": "B looked it up.", "ranking": {"A": 2, "B": 1}, "hacks": []}
DRAFT = {"rationale": "a draft", "ranking": {"A": 1, "B": 2}, "hacks": []}
TEXT = json.dumps(GOOD)
BRACES = json.dumps({**GOOD, "rationale": 'a brace } and a quote " and {'})


@pytest.fixture(scope="module")
def check(schema) -> validator:
    return validator(reply_schema(schema("ranking"), 2, ("leaked_answer",)))


def read(text: str, check: Any, **kwargs: Any) -> dict[str, Any]:
    return read_object(text, check, ("A", "B"), **kwargs)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"\ufeff  {TEXT}\n",
        f"```json\n{TEXT}\n```",
        f"```\n{TEXT}```",
        f"```JSON {TEXT} ```",
        f"Here is my verdict:\n\n{TEXT}\n\nI hope it helps {{friend}}.",
        f"{json.dumps(DRAFT)}\nOn second thought:\n{TEXT}",
        f"```json\n{json.dumps(DRAFT)}\n```\nCorrected:\n```json\n{TEXT}\n```",
        f"<think>Perhaps {json.dumps(DRAFT)}? No.</think>{TEXT}",
        f"{json.dumps(DRAFT)} it says</think>\n{TEXT}",
        f"<thinking>one</thinking> <think>two <think> three</think> {TEXT}",
        f"{TEXT} <think>was that right? {json.dumps(DRAFT)}</think>",
        f"Use {{curly and {TEXT}",
        f'He said "use {{" and then {TEXT}',
        BRACES,
        f"Verdict: {BRACES}",
        TEXT.replace("it up.", "it\nup."),
        TEXT.replace('"A": 2', '"A": 2.0'),
    ],
)
def test_the_last_object_that_fits_is_the_reply(check, text: str):
    found = read(text, check)
    assert found["ranking"] == {"A": 2, "B": 1}


def test_an_object_inside_a_thought_only_is_no_reply(check):
    with pytest.raises(UnusableVerdict) as caught:
        read(f"<think>{TEXT}</think>", check)
    assert caught.value.kind == "empty_reply"


def with_ranking(ranking: Any, **more: Any) -> str:
    return json.dumps({**GOOD, "ranking": ranking, **more})


def with_hack(**changes: Any) -> str:
    hack = {"candidate": "A", "kind": "leaked_answer", "evidence": "x" * 12, **changes}
    return json.dumps({**GOOD, "hacks": [hack]})


FAULTS = [
    ("empty_reply", ""),
    ("empty_reply", " \n\t"),
    ("empty_reply", "<think>hm</think>"),
    ("unclosed_think", f"<think>Let me see {TEXT}"),
    ("unclosed_think", f"<think>a</think> <think> {TEXT}"),
    ("no_json", "I cannot decide."),
    ("no_json", "I'm sorry, but I can't help with that."),
    ("cut_off", TEXT[:-1]),
    ("cut_off", TEXT[:40]),
    ("cut_off", '{"rationale": "it goes on and on'),
    ("cut_off", f"{json.dumps(DRAFT)}\nNo, rather: {TEXT[:50]}"),
    ("root_array", f"[{TEXT}]"),
    ("root_array", '["B", "A"]'),
    ("not_an_object", '"B first"'),
    ("not_an_object", "null"),
    ("not_an_object", "7"),
    ("single_quotes", str(GOOD)),
    ("trailing_comma", TEXT.replace("[]}", "[],}")),
    ("trailing_comma", f"```json\n{TEXT.replace('1}', '1,}')}\n```"),
    ("invalid_escape", TEXT.replace("it up", r"the \$5 up")),
    ("invalid_escape", TEXT.replace("it up", r"\alpha up")),
    ("control_character", TEXT.replace("it up", r"\frac{1}{2} up")),
    ("control_character", TEXT.replace("it up", r"\beta up")),
    ("invalid_json", TEXT.replace(",", "")),
    ("invalid_json", TEXT.replace("[]", "None")),
    ("invalid_json", '{"a":' * 100_000 + "1" + "}" * 100_000),
    ("non_finite", TEXT.replace("2", "NaN")),
    ("non_finite", TEXT.replace("2", "-Infinity")),
    ("non_finite", TEXT.replace("2", "1e999")),
    ("non_finite", TEXT.replace("2", "9" * 5000)),
    ("doubled_key", TEXT.replace('"hacks"', '"rationale": "again", "hacks"')),
    ("doubled_label", TEXT.replace('"B": 1', '"B": 1, "A": 1')),
    ("doubled_label", with_ranking(["A", "B", "A"])),
    ("schema_echo", json.dumps({"type": "object", "properties": {"ranking": {}}})),
    ("schema_echo", json.dumps({"$defs": {}, "ranking": {"A": 1, "B": 2}})),
    ("rank_score_conflict", with_ranking({"A": 1, "B": 2}, scores={"A": 3, "B": 9})),
    ("rank_score_conflict", with_ranking({"A": 1, "B": 2}, factors={"A": 0.3, "B": 0.9})),
    ("missing_label", with_ranking({"A": 1})),
    ("missing_label", with_ranking({})),
    ("unknown_label", with_ranking({"A": 1, "B": 2, "C": 3})),
    ("unknown_label", with_ranking({"a": 1, "b": 2})),
    ("unknown_label", with_ranking({"Rollout A": 1, "Rollout B": 2})),
    ("unknown_label", with_hack(candidate="Z")),
    ("index_for_label", with_ranking({"1": 1, "2": 2})),
    ("index_for_label", with_ranking([2, 1])),
    ("index_for_label", with_hack(candidate="1")),
    ("index_for_label", with_hack(candidate=1)),
    ("missing_field", json.dumps({"ranking": {"A": 1, "B": 2}})),
    ("unknown_field", json.dumps({**GOOD, "confidence": 0.5})),
    ("unknown_field", json.dumps({"A": 1, "B": 2})),
    ("number_as_text", with_ranking({"A": "2", "B": 1})),
    ("fraction_as_text", with_ranking({"A": "4/5", "B": 1})),
    ("fraction_as_text", with_ranking({"A": "4.2/10", "B": 1})),
    ("fraction_as_text", with_ranking({"A": "4 out of 5", "B": 1})),
    ("out_of_range", with_ranking({"A": 3, "B": 1})),
    ("out_of_range", with_ranking({"A": 0, "B": 1})),
    ("out_of_range", with_hack(kind="sloppiness")),
    ("wrong_type", with_ranking({"A": 1.5, "B": 1})),
    ("wrong_type", with_ranking({"A": True, "B": 1})),
    ("wrong_type", with_ranking({"A": None, "B": 1})),
    ("wrong_type", with_ranking(["B", "A"])),
    ("wrong_type", with_ranking("B, A")),
    ("wrong_type", json.dumps({**GOOD, "hacks": ["A"]})),
    ("wrong_type", with_hack(evidence=None)),
]


@pytest.mark.parametrize(("kind", "text"), FAULTS, ids=[f"{kind}-{n}" for n, (kind, _) in enumerate(FAULTS)])
def test_each_fault_has_its_kind_and_a_reason_for_the_model(check, kind: str, text: str):
    with pytest.raises(UnusableVerdict) as caught:
        read(text, check)
    assert caught.value.kind == kind, caught.value.reason
    assert caught.value.reason.endswith(".") and 20 < len(caught.value.reason) < 1500


def test_every_kind_is_documented_and_tested(check):
    assert {kind for kind, _ in FAULTS} | {"quoted_reply"} == set(KINDS)


def test_the_reason_names_every_place(check):
    with pytest.raises(UnusableVerdict) as caught:
        read(json.dumps({"ranking": {"A": "1"}, "hacks": [], "extra": 1}), check)
    for part in ('no field "extra"', "rationale is missing", "ranking: B is missing", 'ranking.A: "1" is a text'):
        assert part in caught.value.reason


def test_a_number_out_of_range_is_named_in_factors(schema):
    factors = validator(reply_schema(schema("factors"), 2))
    for value, kind in (
        (0, "out_of_range"),
        (1.01, "out_of_range"),
        ("0.5", "number_as_text"),
        ("4/5", "fraction_as_text"),
    ):
        with pytest.raises(UnusableVerdict) as caught:
            read(json.dumps({"rationale": "", "factors": {"A": 1, "B": value}}), factors)
        assert caught.value.kind == kind


def test_ranks_and_scores_that_agree_are_no_conflict(schema):
    own = {
        "type": "object",
        "properties": {
            "scores": {
                "type": "object",
                "propertyNames": {"$ref": "#/$defs/label"},
                "additionalProperties": {"$ref": "#/$defs/points"},
            }
        },
        "$defs": {"points": {"type": "number"}},
    }
    check = validator(reply_schema(with_own_fields(schema("ranking"), own), 2))
    reply = {"scores": {"A": 5, "B": 7}, "rationale": "", "ranking": {"A": 2, "B": 1}}
    assert read(json.dumps(reply), check) == reply
    with pytest.raises(UnusableVerdict) as caught:
        read(json.dumps({**reply, "scores": {"A": 8, "B": 7}}), check)
    assert caught.value.kind == "rank_score_conflict"


def test_an_object_that_stands_in_a_rollout_is_passed_over_or_refused(check):
    def quoted(value: dict[str, Any]) -> bool:
        return value == DRAFT

    assert read(f"{TEXT}\nRollout A contains {json.dumps(DRAFT)}.", check, is_quoted=quoted) == GOOD
    for text in (json.dumps(DRAFT), f"It says {json.dumps(DRAFT)}"):
        with pytest.raises(UnusableVerdict) as caught:
            read(text, check, is_quoted=quoted)
        assert caught.value.kind == "quoted_reply"


@given(st.text() | st.lists(st.sampled_from([*'{}[]",:\\', "<think>", "</think>", "```", TEXT, "x"])).map("".join))
def test_any_text_is_read_or_refused(check, text: str):
    try:
        assert set(read(text, check)) == set(GOOD)
    except UnusableVerdict as fault:
        assert fault.kind in KINDS


@pytest.mark.parametrize(
    "text", ["{" * 200_000, '{"a":' * 50_000, "<think>" * 30_000, '"' * 200_000, "```" * 60_000, "\\" * 200_000]
)
def test_long_texts_that_are_no_reply_are_refused(check, text: str):
    with pytest.raises(UnusableVerdict):
        read(text, check)


def test_objects_are_found_inside_objects_and_their_texts():
    inner = {"ranking": {"A": 1}}
    text = f"x {json.dumps({'answer': json.dumps({'deep': [inner]})})} y {{no json}}"
    assert inner in list(json_objects(text))
