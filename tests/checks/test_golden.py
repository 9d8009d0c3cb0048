import json
from textwrap import dedent

import pytest

from whileai.checks.cases import run_golden
from whileai.checks.golden import load_golden
from whileai.checks.votes import GateKnobs
from whileai.errors import SpecError

CALL = "<tool_call>x</tool_call>"


def rank_group(group):
    passes = [g for g in group if g["passed"]]
    ranked = sorted(passes, key=lambda g: g["completion"].count("<tool_call>"))
    hacks = [g["index"] for g in passes if "ORD-9999" in g["completion"]]
    return {"ranking": [g["index"] for g in ranked if g["index"] not in hacks], "hacks": hacks}


def flat(group):
    return {"factors": {g["index"]: 1.0 for g in group if g["passed"]}}


GROUP = f"""
    group:
      - {{completion: "{CALL}{CALL} done"}}
      - {{completion: "{CALL} done"}}
      - {{completion: "Refunded ORD-9999."}}
      - {{completion: "I cannot help.", reward: 0}}
"""


@pytest.fixture
def put(tmp_path):
    def write(text, name="g.golden.yaml"):
        path = tmp_path / name
        path.write_text(dedent(text))
        return path

    return write


def case(expectations, name="one", group=GROUP):
    return f"golden: 1\ncases:\n  - name: {name}{group}" + "".join(f"    {line}\n" for line in expectations)


def results(put, grader, *expectations, **options):
    return run_golden(grader, put(case(expectations, **options)))


@pytest.mark.parametrize(
    "expectations",
    [
        ["ranking: [1, 0]", "hacks: [2]"],
        ["better: [[1, 0], [0, 2]]"],
        ["hacks: [2]"],
        ["factors: {0: 0.5, 1: 1}"],
        ["factors: {0: 0.55}", "tolerance: 0.05"],
        ["ranking: [[1], [0]]", "hacks: [2]"],
    ],
)
def test_cases_that_hold(put, expectations):
    (result,) = results(put, rank_group, *expectations)
    assert result.ok, str(result)


@pytest.mark.parametrize(
    ("expectations", "difference"),
    [
        (["ranking: [0, 1]", "hacks: [2]"], "ranking: expected 0 > 1; got 1 > 0"),
        (["ranking: [[0, 1]]", "hacks: [2]"], "ranking: expected 0 = 1; got 1 > 0"),
        (["better: [[0, 1]]"], "better: expected 0 > 1; got 1 > 0"),
        (["ties: [[0, 1]]"], "ties: expected 0 = 1; got 1 > 0"),
        (["hacks: []"], "hacks: expected none; got 2"),
        (["hacks: [0, 2]"], "hacks: expected 0, 2; got 2"),
        (["factors: {0: 0.75}"], "factors: expected 0.75 for 0, to within 0.01; got 0.500"),
        (["factors: {2: 1.0}"], "factors: expected 1 for 2, to within 0.01; got a hack"),
        (["unusable: missing_pass"], "expected unusable, missing_pass; got a usable verdict"),
    ],
)
def test_a_case_that_fails_shows_group_verdict_and_difference(put, expectations, difference):
    (result,) = results(put, rank_group, *expectations)
    shown = str(result).splitlines()
    assert not result.ok
    assert shown[0].endswith("g.golden.yaml:3: one: does not hold")
    assert shown[1].split()[:3] == ["0", "pass", "0.500"]
    assert shown[3].split()[:3] == ["2", "pass", "hack"]
    assert shown[4].split()[:2] == ["3", "fail"]
    assert shown[5] == "  said: 1 > 0 > 2; hacks 2"
    assert shown[6:] == [f"  {difference}"]


def test_ties_of_a_verdict_are_shown(put):
    (result,) = results(put, flat, "better: [[0, 1]]")
    assert result.problems == ("better: expected 0 > 1; got 0 = 1",)
    (result,) = results(put, flat, "ties: [[0, 1, 2]]")
    assert result.ok


def test_unusable_is_told_apart_by_kind(put):
    def unusable(group):
        return {"ranking": [0]}

    (result,) = results(put, unusable, "unusable: missing_pass")
    assert result.ok
    (result,) = results(put, unusable, "unusable: conflict")
    assert result.problems == ("expected unusable, conflict; got missing_pass",)
    (result,) = results(put, unusable, "hacks: []")
    assert result.problems == ("expected a usable verdict; got missing_pass",)
    assert "passing index 1, 2 has no place" in str(result)

    def down(group):
        raise OSError("no route")

    (result,) = results(put, down, "hacks: []")
    assert "said: nothing usable, raised: OSError: no route" in str(result)


def test_every_case_of_a_file_runs_and_async_graders_too(put):
    text = case(["hacks: [2]"]) + case(["ranking: [0, 1]", "hacks: [2]"], name="two").partition("cases:\n")[2]

    async def later(group):
        return rank_group(group)

    for grader in (rank_group, later):
        assert [(result.name, result.ok) for result in run_golden(grader, put(text))] == [("one", True), ("two", False)]


def test_a_grader_cannot_change_the_case(put):
    def vandal(group):
        ranking = rank_group(group)
        group.clear()
        return ranking

    (result,) = results(put, vandal, "ranking: [1, 0]", "hacks: [2]")
    assert result.ok
    assert len(result.case.group) == 4


def test_messages_prompts_and_columns_reach_the_grader(put):
    seen = []
    group = """
    prompt: refund order 7
    group:
      - messages:
          - {role: assistant, tool_calls: [{function: {name: refund, arguments: {id: 7}}}]}
          - {role: tool, content: refunded}
        ticket: T-1
      - {final_text: done, prompt: another, reward: null}
"""
    results(put, lambda group: seen.append(group) or rank_group(group), "hacks: []", group=group)
    ((first, second),) = seen
    assert "<tool_call>" in first["completion"]
    assert first["messages"][1]["content"] == "refunded"
    assert (first["prompt"], first["ticket"], second["prompt"]) == ("refund order 7", "T-1", "another")
    assert (first["passed"], second["passed"], second["reward"]) == (True, False, None)


def test_groups_from_rows(put, tmp_path):
    rows = [{"scenario_id": s, "reward": 1, "final_text": CALL * n} for s in ("a", "7") for n in (3, 1)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for key in ("a", "7"):
        (result,) = results(
            put, rank_group, "ranking: [1, 0]", group=f"\n    rows: {{file: ./rows.jsonl, id: {key}}}\n"
        )
        assert result.ok


def test_reward_mode_compares_products(put):
    def score(rollout, rubric):
        return {"solution": 1.0 if rubric[0] in rollout["completion"] else 0.5, "behavior": 0.5}

    path = put(case(["rubric: [ORD]", "factors: {0: 0.25, 2: 0.5}", "better: [[2, 1]]", "ties: [[0, 1]]"]))
    (result,) = run_golden(score, path, GateKnobs(mode="reward"))
    assert result.ok, str(result)
    score.mode = "reward"
    assert run_golden(score, path)[0].ok
    (result,) = run_golden(lambda rollout, rubric: {"solution": 2, "behavior": 1}, path, GateKnobs(mode="reward"))
    assert "bad_scores" in result.problems[0]


@pytest.mark.parametrize(
    "rubric",
    [
        {"solution": ["The refund equals the order's total."], "behavior": ["It LOOKS the order up first."]},
        ["The refund equals the total.", "It looks the order up."],
        "Looks up the order. Refunds its total.",
    ],
)
def test_a_written_rubric_is_held_against_words(put, rubric):
    groups = []

    def write(group):
        groups.append(group)
        return rubric

    knobs = GateKnobs(mode="reward")
    (result,) = run_golden(write, put(case(["criteria: [looks, Refund]"])), knobs)
    assert result.ok
    assert [rollout["index"] for rollout in groups[0]] == [0, 1, 2, 3]
    (result,) = run_golden(write, put(case(["criteria: [refund, confirm]"])), knobs)
    assert result.problems == ("criteria: none says 'confirm'",)
    assert "order" in str(result)
    assert load_golden(put(case(["criteria: [refund]"]))).call_count("reward") == 1


@pytest.mark.parametrize("nothing", [None, "", [], {}, 3])
def test_a_writer_without_a_rubric_does_not_hold(put, nothing):
    (result,) = run_golden(lambda group: nothing, put(case(["criteria: [refund]"])), GateKnobs(mode="reward"))
    assert "got no_rubric" in result.problems[0]


def test_a_rubric_has_no_ranking(put):
    with pytest.raises(SpecError, match="a rubric has nothing else that could hold"):
        load_golden(put(case(["criteria: [refund]", "ranking: [0, 1, 2]"])))


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", ":", "empty"),
        ("golden: 2\ncases: []", ":1: golden:", "2"),
        ("golden: 1\ncases: []", ":2: cases:", "too short"),
        ("golden: 1\ncase: []", ":2: case:", "did you mean 'cases'"),
        (case(["hack: [2]"]), ":9: cases[0].hack:", "did you mean 'hacks'"),
        (case([]), ":3: cases[0]:", "expects nothing"),
        (case(["hacks: [2]"], group="\n"), ":3: cases[0]:", "one of group and rows"),
        (case(["hacks: [2]"]) + case(["hacks: [2]"]).partition("cases:\n")[2], ":10: cases[1].name:", "two cases"),
        (case(["ranking: [1, 0, 4]", "hacks: [2]"]), ":9: cases[0].ranking:", "index 4 is for a group of another size"),
        (case(["ranking: [1, 0]"]), ":9: cases[0].ranking:", "pass 2 is missing"),
        (case(["ranking: [1, 1, 0]", "hacks: [2]"]), ":9: cases[0].ranking:", "twice"),
        (case(["better: [[0, 3]]"]), ":9: cases[0].better[0][1]:", "rollout 3 failed"),
        (case(["better: [[0, 7]]"]), ":9: cases[0].better[0][1]:", "this one has 4 rollouts"),
        (case(["better: [[0]]"]), ":9: cases[0].better[0]:", "too short"),
        (case(["better: [[0, 0]]"]), ":9: cases[0].better[0]:", "twice"),
        (case(["ties: [[0, -1]]"]), ":9: cases[0].ties[0][1]:", "another size"),
        (case(["hacks: [9]"]), ":9: cases[0].hacks[0]:", "another size"),
        (case(["factors: {9: 1.0}"]), ":9: cases[0].factors[9]:", "another size"),
        (case(["factors: {0: 1.5}"]), ":9: cases[0].factors[0]:", "at most 1"),
        (case(["unusable: conflict", "hacks: []"]), ":9: cases[0].unusable:", "nothing else"),
        (case(["hacks: [true]"]), ":9: cases[0].hacks[0]:", "whole number"),
        (case(["hacks: []"], group="\n    group: [{completon: x}]\n"), ":4: cases[0].group[0]:", "completon"),
        (
            case(["hacks: []"], group="\n    group: [{completion: x, reward: high}]\n"),
            ":4: cases[0].group[0]:",
            "'high'",
        ),
        (case(["hacks: []"], group="\n    rows: {file: ./no.jsonl, id: a}\n"), ":4: cases[0].rows.file:", "no file"),
        (
            case(["hacks: []"], group="\n    rows: {file: ../up.jsonl, id: a}\n"),
            ":4: cases[0].rows.file:",
            "without ..",
        ),
        (
            case(["hacks: []"], group="\n    rows: {file: ./bad.jsonl, id: a}\n"),
            ":4: cases[0].rows.file:",
            "bad.jsonl:1",
        ),
        (
            case(["hacks: []"], group="\n    rows: {file: ./good.jsonl, id: b}\n"),
            ":4: cases[0].rows.id:",
            "no group 'b'",
        ),
    ],
)
def test_broken_files_say_where_and_why(put, tmp_path, text, place, words):
    (tmp_path / "bad.jsonl").write_text("{")
    (tmp_path / "good.jsonl").write_text('{"group_id": "a", "reward": 1, "completion": "x"}')
    path = put(text)
    with pytest.raises(SpecError) as caught:
        load_golden(path)
    lines = str(caught.value).splitlines()
    assert any(line.startswith(f"{path}{place}") and words in line for line in lines), lines


def test_all_mistakes_come_at_once(put):
    path = put(case(["better: [[0, 3]]", "ties: [[0, 9]]", "hack: [1]"]))
    with pytest.raises(SpecError) as caught:
        load_golden(path)
    assert len(caught.value.problems) >= 1
    path = put(case(["better: [[0, 3]]", "ties: [[0, 9]]"]))
    with pytest.raises(SpecError) as caught:
        load_golden(path)
    assert len(caught.value.problems) == 2


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SpecError, match=r"no\.golden\.yaml"):
        load_golden(tmp_path / "no.golden.yaml")


def test_a_fallback_does_not_answer_for_the_grader(tmp_path):
    from whileai.checks.cases import run_golden
    from whileai.loader import load_grader

    (tmp_path / "broken.py").write_text("def grade(group):\n    raise LookupError('no verdict')\n")
    (tmp_path / "x.yaml").write_text(
        "spec: 1\nname: x\nkind: python\nfunction: ./broken.py:grade\nfallback: [rank_group]\n"
    )
    golden = tmp_path / "x.golden.yaml"
    golden.write_text(
        "golden: 1\ncases:\n  - name: short first\n    group: [{completion: a}, {completion: <tool_call>}]\n"
        "    ranking: [0, 1]\n"
    )
    (result,) = run_golden(load_grader(tmp_path / "x.yaml"), golden)
    assert not result.ok and "no verdict" in str(result)
