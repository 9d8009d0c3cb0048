import json
import os
import signal
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("WHILEAI_SHARED", REPOSITORY.parent / "shared"))
AIRLINE = SHARED / "data" / "airline_rollouts.jsonl"


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def column(graded, name):
    return [row["grade"][name] for row in graded]


def test_every_row_comes_back_in_its_place_with_a_grade(run, rows):
    code, out, err = run("grade", "./graders.py:rank", "--rows", "rows.jsonl")
    assert (code, err) == (0, "")
    graded = lines_of(out)
    assert [{k: v for k, v in row.items() if k not in ("grade", "checked")} for row in graded] == rows
    assert all(row["checked"] is False for row in graded)
    s0 = [row["grade"] for row in graded if row["scenario_id"] == "s0"]
    assert [grade["rank"] for grade in s0] == [2, 1, 3, None]
    assert [grade["factor"] for grade in s0] == [0.75, 1.0, 0.5, None]
    assert [grade["advantage_before"] for grade in s0] == [0.25, 0.25, 0.25, -0.75]
    assert [grade["advantage"] for grade in s0] == pytest.approx([1 / 4, 1 / 3, 1 / 6, -3 / 4])
    assert [grade["reward"] for grade in s0] == pytest.approx([1, 13 / 12, 11 / 12, 0])
    assert {(grade["hack"], grade["failure"]) for grade in s0} == {(False, None)}


def test_hacks_ties_and_failures_are_marked(run, put):
    put(
        "r.jsonl",
        [
            {"scenario_id": "s0", "reward": 1, "final_text": "x cheat"},
            {"scenario_id": "s0", "reward": 1, "final_text": "x"},
            {"scenario_id": "s0", "reward": 0, "final_text": "x"},
            {"scenario_id": "s1", "reward": 1, "final_text": "x"},
            {"scenario_id": "s1", "reward": 0, "final_text": "x"},
            {"scenario_id": "s2", "reward": None, "final_text": "x"},
            {"scenario_id": "s2", "reward": 1, "final_text": "x"},
            {"scenario_id": "s2", "reward": 0, "final_text": "x"},
        ],
    )
    code, out, _ = run("grade", "graders.py:fails_on_s1", "--rows", "r.jsonl")
    assert code == 0
    graded = lines_of(out)
    assert column(graded, "hack") == [True, *[False] * 7]
    assert column(graded, "failure") == [None, None, None, "raised", "raised", None, None, None]
    assert column(graded, "reward") == [0, 1, 0, 1, 0, 0.5, 1, 0]
    assert column(graded, "advantage")[5] == column(graded, "advantage_before")[5] == 0


def test_reward_mode(run, rows):
    code, out, _ = run("grade", "graders.py:score", "--rows", "rows.jsonl", "--mode", "reward")
    assert code == 0
    s0 = [row["grade"] for row in lines_of(out) if row["scenario_id"] == "s0"]
    assert [grade["reward"] for grade in s0] == pytest.approx([1 / 3, 1, 1 / 6, 0])
    assert [grade["rank"] for grade in s0] == [2, 1, 3, None]


@pytest.mark.parametrize("name", ["out.jsonl", "out.json", "new/folder/out.jsonl"])
def test_a_file_gets_the_rows_and_standard_output_the_summary(run, rows, folder, name):
    code, out, err = run("grade", "graders.py:chatty", "--rows", "rows.jsonl", "--out", name)
    assert code == 0
    text = (folder / name).read_text()
    graded = json.loads(text) if name.endswith(".json") else lines_of(text)
    assert len(graded) == 20
    assert out.splitlines() == [
        f"20 rows in 5 groups, written to {name}",
        "groupwise grading (advantage): 5 groups, 5 mixed, 5 grader calls, 0 failed (fell back), 0 hacks zeroed; "
        "factors mean 0.750 std 0.204",
        "not checked: `whileai check` says whether this grader tells passes apart",
    ]
    assert err.count("looking at") == 5


def test_json_is_the_summary(run, rows):
    code, out, _ = run("grade", "graders.py:fails_on_s1", "--rows", "rows.jsonl", "--out", "o.jsonl", "--json")
    assert code == 0
    assert json.loads(out) == {
        "rows": 20, "groups": 5, "mixed": 5, "grader_calls": 5, "failures": {"raised": 1}, "hacks": 0,
        "factor_mean": 0.75, "factor_std": pytest.approx(0.2041, abs=1e-4), "checked": False,
    }  # fmt: skip


def test_what_a_grader_prints_is_no_row(run, rows):
    _, out, err = run("grade", "graders.py:chatty", "--rows", "rows.jsonl")
    assert len(lines_of(out)) == 20
    assert err.count("looking at") == 5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--json"], "give the rows a file of their own with --out"),
        (["--json", "--out", "-"], "give the rows a file of their own with --out"),
        (["--out", "o.csv"], "rows are written to .jsonl or .json, not to '.csv'"),
        (["--out", "o"], "rows are written to .jsonl or .json, not to ''"),
        (["--out", "folder.jsonl"], "this is a folder"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_where_rows_cannot_go_is_said_before_any_call(run, rows, folder, arguments, says):
    (folder / "folder.jsonl").mkdir()
    code, out, err = run("grade", "graders.py:chatty", "--rows", "rows.jsonl", *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert "looking at" not in err


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_bad_row_leaves_the_old_file(run, rows, folder):
    (folder / "out.jsonl").write_text("old\n")
    with (folder / "rows.jsonl").open("a") as file:
        file.write('{"reward": 1}\n')
    before = names(folder)
    code, _, err = run("grade", "graders.py:chatty", "--rows", "rows.jsonl", "--out", "out.jsonl")
    assert code == 2
    assert err.startswith("error: rows.jsonl:21: completion: missing")
    assert (folder / "out.jsonl").read_text() == "old\n"
    assert names(folder) == before


def test_a_bad_row_writes_nothing_to_standard_output(run, rows, folder):
    with (folder / "rows.jsonl").open("a") as file:
        file.write('{"reward": 1}\n')
    assert run("grade", "graders.py:rank", "--rows", "rows.jsonl")[:2] == (2, "")


def test_an_interrupt_leaves_the_old_file(command, rows, folder):
    (folder / "out.jsonl").write_text("old\n")
    before = names(folder)
    child = command("grade", "graders.py:hang", "--rows", "rows.jsonl", "--out", "out.jsonl", text=True)
    try:
        assert child.stderr.readline() == "begun\n"
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=20)
    finally:
        child.kill()
    assert (child.returncode, out) == (130, "")
    assert (folder / "out.jsonl").read_text() == "old\n"
    assert names(folder) == before


def test_graded_rows_can_be_graded_again(run, rows):
    first = run("grade", "graders.py:rank", "--rows", "rows.jsonl", "--out", "a.jsonl")
    second = run("grade", "graders.py:rank", "--rows", "a.jsonl", "--out", "b.jsonl")
    assert first[0] == second[0] == 0
    assert Path("a.jsonl").read_text() == Path("b.jsonl").read_text()


def test_real_rollouts_of_an_airline_desk(run, folder):
    if not AIRLINE.exists():
        pytest.skip(f"no {AIRLINE}; set WHILEAI_SHARED to the folder that holds data/")
    target = f"{REPOSITORY}/graders/rank_group.py:rank_group"
    code, _, _ = run("grade", target, "--rows", AIRLINE, "--out", "graded.jsonl")
    assert code == 0
    graded = lines_of((folder / "graded.jsonl").read_text())
    assert len(graded) == 128
    sums: dict[str, float] = {}
    for row in graded:
        sums[row["scenario_id"]] = sums.get(row["scenario_id"], 0.0) + row["grade"]["advantage"]
    assert len(sums) == 32
    assert max(map(abs, sums.values())) < 1e-12
    mixed = {s for s in sums if len({row["reward"] for row in graded if row["scenario_id"] == s}) == 2}
    assert len(mixed) == 15
    for row in graded:
        assert (row["grade"]["rank"] is not None) == (row["scenario_id"] in mixed and row["reward"] == 1)
    assert not [row for row in graded if row["grade"]["failure"]]


def test_a_terminal_gets_a_table(terminal, rows, put):
    rows += [{"scenario_id": "flat", "reward": 1, "final_text": "x"}] * 2
    rows += [{"scenario_id": "hacked", "reward": r, "final_text": "cheat"} for r in (1, 0)]
    rows += [
        {"scenario_id": "a-name-that-is-longer-than-a-column", "reward": r, "final_text": "a"} for r in (1, None, 0)
    ]
    put("rows.jsonl", rows)
    code, _, lines = terminal("grade", "graders.py:fails_on_s1", "--rows", "rows.jsonl")
    assert code == 0
    assert max(map(len, lines)) <= 80
    words = [line.replace("→", "to").replace("->", "to").split() for line in lines]
    for expected in (
        ["group", "row", "reward", "rank", "factor", "advantage"],
        ["s0", "0", "1", "2", "0.75", "+0.25", "to", "+0.25"],
        ["5", "1", "1", "1.00", "+0.25", "to", "+0.33"],
        ["15", "0", "-0.75", "to", "-0.75"],
        ["s1", "1", "1", "+0.25", "to", "+0.25", "raised"],
        ["hacked", "22", "1", "+0.50", "to", "+0.00", "hack"],
        ["25", "none", "+0.00", "to", "+0.00"],
        ["27", "rows", "in", "8", "groups"],
    ):
        assert expected in words
    assert "1 of 8 groups have no advantage to move: all their rewards are equal" in lines
    assert "failed: 1 calls, raised: RuntimeError: judge down" in lines


def test_a_terminal_gets_rows_where_they_are_asked_for(terminal, rows):
    code, _, lines = terminal("grade", "graders.py:rank", "--rows", "rows.jsonl", "--out", "-")
    assert code == 0
    assert len(lines_of("\n".join(lines))) == 20
