import io
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.checks.rows import read_rows, write_rows
from whileai.errors import BatchError, RowError

ROW = {"scenario_id": "s", "reward": 1, "final_text": "done"}


def put(tmp_path, name, text):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def line_of(row):
    return json.dumps({**ROW, **row})


def test_jsonl_keeps_order_and_skips_blank_lines(tmp_path):
    path = put(tmp_path, "r.jsonl", "\ufeff" + line_of({"n": 0}) + "\r\n\r\n" + line_of({"n": 1}))
    assert [row["n"] for row in read_rows(path)] == [0, 1]


def test_jsonl_line_separators_inside_strings_do_not_split_a_row(tmp_path):
    row = {**ROW, "final_text": "a\u2028b\x85c\x0cd"}
    path = put(tmp_path, "r.jsonl", json.dumps(row, ensure_ascii=False))
    assert read_rows(path) == [row]


def test_json_list(tmp_path):
    rows = [{**ROW, "n": n} for n in range(3)]
    assert read_rows(put(tmp_path, "r.json", json.dumps(rows, indent=2))) == rows


@pytest.mark.parametrize(
    ("name", "text", "place", "words"),
    [
        ("r.jsonl", line_of({}) + "\n" + '{"reward": 1, ', ":2:", "not JSON"),
        ("r.jsonl", line_of({}) + "\n\n[1]", ":3:", ".json file"),
        ("r.jsonl", '{"reward": 1, "final_text": "a"} {}', ":1:", "more text"),
        ("r.jsonl", '{"reward": 1, "reward": 0, "final_text": "a"}', ":1: reward:", "twice"),
        ("r.jsonl", '{"reward": 1, "final_text": "a", "x": {"deep": [[1, NaN]]}}', ":1: deep:", "NaN"),
        ("r.jsonl", '{"reward": 1e999, "final_text": "a"}', ":1: reward:", "1e999"),
        ("r.jsonl", '{"reward": -Infinity, "final_text": "a"}', ":1: reward:", "-Infinity"),
        ("r.jsonl", "NaN", ":1:", "NaN"),
        ("r.jsonl", "3", ":1:", "a number"),
        ("r.jsonl", '{"reward": "1", "final_text": "a"}', ":1: reward:", 'this is text, "1"'),
        ("r.jsonl", '{"reward": "' + "1" * 50 + '", "final_text": "a"}', ":1: reward:", "this is text"),
        ("r.jsonl", '{"final_text": "a"}', ":1: reward:", "missing"),
        ("r.jsonl", '{"reward": 1, "messages": null}', ":1: completion:", "final_text"),
        ("r.jsonl", '{"reward": 1, "messages": "hello"}', ":1: messages:", "list of messages"),
        ("r.jsonl", '{"reward": 1, "messages": [{}, "x"]}', ":1: messages[1]:", "text"),
        ("r.jsonl", '{"reward": 1, "completion": 4}', ":1: completion:", "a number"),
        ("r.jsonl", '{"reward": 1, "final_text": ["a"]}', ":1: final_text:", "a list"),
        ("r.jsonl", '{"reward": 1, "final_text": "a", "task_id": {"a": 1}}', ":1: task_id:", "an object"),
        ("r.jsonl", '{"reward": 1, "final_text": "a", "n": ' + "1" * 5000 + "}", ":1:", "number"),
        ("r.jsonl", "[" * 100_000, ":1:", "nested too deeply"),
        ("r.jsonl", b'{"reward": 1,\n"\xff"}', ":2:", "0xff"),
        ("r.json", json.dumps(ROW), ":1:", ".jsonl file"),
        ("r.json", "[\n" + json.dumps(ROW) + ",\n7]", ":3:", "a number"),
        ("r.json", "[\n" + json.dumps(ROW) + "\n" + json.dumps(ROW) + "]", ":3:", "is missing"),
        ("r.json", "[" + json.dumps(ROW) + ",", ":1:", "not JSON"),
        ("r.json", "[" + json.dumps(ROW) + ",]", ":1:", "not JSON"),
        ("r.json", "[" + json.dumps(ROW) + "] x", ":1:", "more text"),
        ("r.json", "[\n" + json.dumps(ROW) + ",\n{\n'a'}]", ":4:", "not JSON"),
        ("r.csv", "reward,final_text\n1,a,b\n", ":2:", "3 fields"),
        ("r.csv", "reward,final_text,reward\n1,a,b\n", ":1: reward:", "twice"),
        ("r.csv", "reward,,final_text\n1,a,b\n", ":1:", "no name"),
        ("r.csv", 'reward,final_text\n1,"a\n\nb"\nhigh,c\n', ":5: reward:", "'high'"),
        ("r.csv", 'reward,final_text\n1,"a', ":2:", "cannot be read"),
        ("r.csv", "reward,messages\n1,hello\n", ":2:", "not JSON"),
    ],
)
def test_a_bad_row_names_file_line_and_key(tmp_path, name, text, place, words):
    path = put(tmp_path, name, text)
    with pytest.raises(RowError) as caught:
        read_rows(path)
    assert str(caught.value).startswith(f"{path}{place}")
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["r.parquet", "r.jsonl.gz", "r.txt"])
def test_a_file_of_another_kind_is_named_by_its_suffix_whatever_its_bytes(tmp_path, name):
    with pytest.raises(
        BatchError, match=r"rows are read from \.jsonl, \.ndjson, \.json, \.csv, not from '\.\w+' \(conv"
    ):
        read_rows(put(tmp_path, name, b"PAR1\xff\xfe"))


@pytest.mark.parametrize(
    ("name", "text"), [("r.jsonl", " \n"), ("r.json", "[]"), ("r.csv", "reward\n"), ("r.txt", "{}")]
)
def test_no_rows_and_unknown_kinds_are_errors(tmp_path, name, text):
    with pytest.raises(BatchError, match=r"r\."):
        read_rows(put(tmp_path, name, text))


def test_csv_types_by_column(tmp_path):
    messages = [{"role": "user", "content": 'a, "b"\nc'}]
    cell = '"' + json.dumps(messages).replace('"', '""') + '"'
    text = (
        "scenario_id,reward,completion,prompt,cost,tags,note,messages\n"
        f'007,1,123,{cell},0.5,"[1, 2]",7,{cell}\n'
        '008,,"[1]",[1],,,seven,\n'
    )
    first, second = read_rows(put(tmp_path, "r.csv", text))
    assert first == {
        "scenario_id": "007", "reward": 1, "completion": "123", "prompt": messages,
        "cost": 0.5, "tags": [1, 2], "note": "7", "messages": messages,
    }  # fmt: skip
    assert second == {
        "scenario_id": "008", "reward": None, "completion": "[1]", "prompt": "[1]",
        "cost": None, "tags": None, "note": "seven", "messages": None,
    }  # fmt: skip


def test_csv_holds_a_transcript_longer_than_the_csv_module_allows(tmp_path):
    path = put(tmp_path, "r.csv", "reward,final_text\n1," + "x" * 200_000 + "\n")
    assert len(read_rows(path)[0]["final_text"]) == 200_000


@pytest.mark.parametrize("text", [json.dumps([ROW]), json.dumps(ROW), "scenario_id,reward,final_text\ns,1,done\n"])
def test_standard_input_is_told_by_its_first_character(monkeypatch, tmp_path, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert read_rows("-") == [ROW]
    assert read_rows(put(tmp_path, "rows", text)) == [ROW]


def test_standard_input_is_named_in_errors(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{")))
    with pytest.raises(RowError, match="<stdin>:1:"):
        read_rows("-")


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda v: st.lists(v) | st.dictionaries(st.text(), v), max_leaves=8)
any_text = st.text(st.characters())  # lone surrogates too


@given(
    extra=st.dictionaries(st.text(min_size=12), values),
    text=any_text,
    suffix=st.sampled_from([".jsonl", ".json"]),
)
def test_what_is_written_is_read_back(tmp_path_factory, extra, text, suffix):
    path = tmp_path_factory.getbasetemp() / f"round{suffix}"
    rows = [{**extra, **ROW, "final_text": text}, ROW]
    write_rows(path, rows)
    assert read_rows(path) == rows


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_a_value_that_json_cannot_hold_leaves_the_old_file(tmp_path, value):
    path = put(tmp_path, "r.jsonl", "old")
    with pytest.raises(RowError, match=r"row 1: x: "):
        write_rows(path, [ROW, {**ROW, "x": value}])
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["r.jsonl"]


def test_rows_are_not_written_as_csv(tmp_path):
    with pytest.raises(BatchError, match=r"\.csv"):
        write_rows(tmp_path / "r.csv", [ROW])
