import json
import os
import signal
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("WHILEAI_SHARED", REPOSITORY.parent / "shared"))
AIRLINE = SHARED / "data" / "airline_rollouts.jsonl"

YES = "spread: yes. The grader tells these passes apart."


def test_yes_is_0_and_the_pages_lines(run, rows):
    code, out, err = run("check", "./graders.py:rank", "--rows", "rows.jsonl")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "spread check: 15 grader scores over 5 group(s), std 0.204, 33% within 0.05 of the median 0.75",
        YES,
    ]


def test_no_is_1_and_says_what_to_change_on_one_line(run, rows):
    code, out, _ = run("check", "graders.py:constant", "--rows", "rows.jsonl")
    assert code == 1
    assert len(out.splitlines()) == 2
    assert out.splitlines()[1].startswith("spread: no. std 0.000 is under 0.05; ")
    assert "What to change" in out


def test_not_enough_data_is_3(run, put):
    put("few.jsonl", [{"scenario_id": "s", "reward": 1, "final_text": "a"}])
    code, out, _ = run("check", "graders.py:rank", "--rows", "few.jsonl")
    assert code == 3
    assert "it needs a group with two or more passes" in out
    assert "spread: not enough data." in out


def test_a_grader_whose_every_call_fails_is_a_no_with_the_reason(run, rows):
    code, out, _ = run("check", "graders.py:boom", "--rows", "rows.jsonl")
    assert code == 1
    first, failed, answer = out.splitlines()
    assert first == "spread check: no scores"
    assert failed == "failed: 5 of 5 grader calls, raised: RuntimeError: judge down: \\ud800 :warning: [bold]"
    assert answer.startswith("spread: no. every grader call failed")
    assert "mend the calls that failed" in answer


def test_failed_calls_are_named(run, rows):
    code, out, _ = run("check", "graders.py:fails_on_s1", "--rows", "rows.jsonl")
    assert code == 1
    assert "failed: 1 of 5 grader calls, raised: RuntimeError: judge down" in out
    assert "1 of 5 grader calls failed, over 10%" in out


@pytest.mark.parametrize("target", ["./graders.py:rank_later", "graders:rank"], ids=["async", "a module of the folder"])
def test_other_graders(run, rows, target):
    assert run("check", target, "--rows", "rows.jsonl")[0] == 0


def test_reward_mode(run, rows):
    code, out, _ = run("check", "graders.py:score", "--rows", "rows.jsonl", "--mode", "reward")
    assert code == 0
    assert out.startswith("spread check: 15 grader scores over 5 group(s)")


def test_group_size_splits_a_scenario(run, put):
    put("r.jsonl", [{"scenario_id": "s", "reward": 1, "final_text": "x" * n} for n in (1, 2, 3, 4)])
    assert "4 grader scores over 1 group" in run("check", "graders.py:rank", "--rows", "r.jsonl")[1]
    assert "4 grader scores over 2 group" in run("check", "graders.py:rank", "--rows", "r.jsonl", "--group-size", 2)[1]


def test_json_is_one_document(run, rows):
    code, out, err = run("check", "graders.py:chatty", "--rows", "rows.jsonl", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["std"] == pytest.approx(0.2041, abs=1e-4)
    assert {key: found[key] for key in ("verdict", "rows", "groups", "scores", "median", "calls")} == {
        "verdict": "yes", "rows": 20, "groups": 5, "scores": 15, "median": 0.75, "calls": 5,
    }  # fmt: skip
    assert found["problems"] == found["failures"] == []
    assert err.count("looking at 4 rollouts") == 5  # what a grader prints is not the answer


@pytest.mark.parametrize(
    ("grader", "code", "verdict"), [("boom", 1, "no"), ("constant", 1, "no"), ("rank", 3, "not enough data")]
)
def test_json_never_holds_nan(run, rows, put, grader, code, verdict):
    given = "rows.jsonl" if code == 1 else put("few.jsonl", [{"scenario_id": "s", "reward": 1, "final_text": "a"}])
    found_code, out, _ = run("check", f"graders.py:{grader}", "--rows", given, "--json")
    found = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert (found_code, found["verdict"]) == (code, verdict)
    assert (found["std"] is None) == (found["scores"] == 0)
    assert found["problems"]
    assert out.isascii()


# ------------------------------------------------------------------- rows


def test_csv_json_and_standard_input(run, rows, folder, command):
    expected = run("check", "graders.py:rank", "--rows", "rows.jsonl")
    (folder / "rows.json").write_text(json.dumps(rows))
    header = "scenario_id,reward,final_text\n"
    (folder / "rows.csv").write_text(
        header + "".join(f"{r['scenario_id']},{r['reward']},{r['final_text']}\n" for r in rows)
    )
    assert run("check", "graders.py:rank", "--rows", "rows.json") == expected
    assert run("check", "graders.py:rank", "--rows", "rows.csv") == expected
    for name in ("rows.jsonl", "rows.json", "rows.csv"):
        with (folder / name).open("rb") as given:
            child = command("check", "graders.py:rank", "--rows", "-", stdin=given)
            out, err = child.communicate(timeout=60)
        assert (child.returncode, out.decode(), err.decode()) == expected


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('{"scenario_id": "s", "final_text": "a"}', "rows.jsonl:21: reward: missing"),
        ('{"scenario_id": "s", "reward": "1", "final_text": "a"}', "rows.jsonl:21: reward: a number or null"),
        ('{"scenario_id": "s", "reward": 1}', "rows.jsonl:21: completion: missing"),
        ('{"scenario_id": "s", "reward": NaN, "final_text": "a"}', "rows.jsonl:21: reward: NaN"),
        ('{"scenario_id": "s"', "rows.jsonl:21: not JSON"),
        ("[]", "rows.jsonl:21: a row is an object"),
    ],
)
def test_a_bad_row_names_file_line_and_key(run, rows, folder, row, says):
    with (folder / "rows.jsonl").open("a") as file:
        file.write(row)
    code, out, err = run("check", "graders.py:rank", "--rows", "rows.jsonl")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {says}")


def test_rows_without_a_group_key_say_which_keys_name_a_group(run, put):
    put("r.jsonl", [{"reward": 1, "final_text": "a"}])
    code, _, err = run("check", "graders.py:rank", "--rows", "r.jsonl")
    assert code == 2
    assert "group_id, scenario_id, task_id, prompt" in err


# ----------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["./none.py:f"], "./none.py: no such file"),
        (["./grader.py:rank"], "./grader.py: no such file (did you mean graders.py?)"),
        (["graders.py"], "names no function (did you mean graders.py:"),
        (["graders.py:rnak"], "has no function 'rnak' (did you mean graders.py:rank?)"),
        (["no_such_module:rank"], "no_such_module: no such module"),
        (["graders.py:rank", "--mode", "both"], "mode='both'"),
        (["graders.py:rank", "--rows", "none.jsonl"], "none.jsonl: No such file"),
        (["graders.py:rank", "--rows", "."], "Is a directory"),
        (["graders.py:rank", "--rows", "rows.parquet"], "rows.parquet"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_mistake_is_one_line_and_exit_code_2(run, rows, folder, arguments, says):
    (folder / "rows.parquet").touch()
    if "--rows" not in arguments:
        arguments = [*arguments, "--rows", "rows.jsonl"]
    code, out, err = run("check", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert says in err
    assert len(err.splitlines()) == 1


def test_a_file_that_does_not_parse_names_its_line(run, rows, folder):
    (folder / "broken.py").write_text("def rank(group):\n    return {\n")
    code, _, err = run("check", "broken.py:rank", "--rows", "rows.jsonl")
    assert code == 2
    assert err.startswith("error: broken.py:2: does not parse: ")


# ---------------------------------------------------------------- processes


def test_ctrl_c_ends_a_hanging_check_with_130(command, rows):
    child = command("check", "graders.py:hang", "--rows", "rows.jsonl", text=True)
    try:
        assert child.stderr.readline() == "begun\n"
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=20)
    finally:
        child.kill()
    assert (child.returncode, out) == (130, "")
    said = err.replace("begun", "").split()  # several graders had begun, and each says so when it likes
    assert said == ["error:", "interrupted"]


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_no_terminal_encoding_breaks_the_answer(command, folder, monkeypatch, encoding):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    (folder / "graders.py").write_text("def rank(group):\n    raise ValueError('\\u4f60 \\ud800')\n")
    (folder / "r.jsonl").write_text('{"scenario_id": "s", "reward": 1, "final_text": "a"}\n' * 2)
    child = command("check", "graders.py:rank", "--rows", "r.jsonl", "--json")
    out, err = child.communicate(timeout=60)
    assert child.returncode == 1, err
    assert json.loads(out)["failures"][0]["first"] == "ValueError: \u4f60 \\ud800"


def test_real_rollouts_of_an_airline_desk(run):
    if not AIRLINE.exists():
        pytest.skip(f"no {AIRLINE}; set WHILEAI_SHARED to the folder that holds data/")
    code, out, _ = run("check", REPOSITORY / "graders" / "rank_group.py:rank_group", "--rows", AIRLINE, "--json")
    found = json.loads(out)
    assert (code, found["verdict"], found["rows"], found["groups"], found["calls"]) == (0, "yes", 128, 15, 15)


def test_a_terminal_gets_colours_and_lines_that_end_at_words(terminal, rows):
    code, shown, lines = terminal("check", "graders.py:constant", "--rows", "rows.jsonl")
    assert code == 1
    assert "\x1b[1;31mspread: no." in shown
    assert lines[0] == "spread check: 15 grader scores over 5 group(s), std 0.000, 100% within 0.05 of"
    assert max(map(len, lines)) <= 80
    assert lines[-1].endswith("verify).")
