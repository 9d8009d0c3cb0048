import pytest

GRADERS = '''
def ranks(group):
    """Shortest first."""
    passes = sorted((g for g in group if g["passed"]), key=lambda g: len(g["completion"]))
    return {"ranking": [g["index"] for g in passes], "why": "shorter is better"}

def ties(group):
    return {"ranking": [[g["index"] for g in group if g["passed"]]]}

def hunts(group):
    return {"hacks": [g["index"] for g in group if g["passed"] and "leak" in g["completion"]]}

def small(group):
    return {"factors": {g["index"]: 0.1 for g in group if g["passed"]}}

def forgets(group):
    return {"ranking": [0]}

def silent(group):
    pass

def raises(group):
    raise ValueError("no model\\x1b[31m today")

async def later(group):
    return {"ranking": [g["index"] for g in group if g["passed"]]}

def score(rollout, rubric):
    return {"solution": 1.0, "behavior": 2 if rollout["index"] else 0.5}
'''

GROUPS = {
    "mixed": [("bb", 1), ("a", 1), ("c", 0)],
    "hacked": [("leak", 1), ("a", 1), ("c", 0)],
    "passed": [("a", 1), ("bb", 1)],
    "failed": [("a", 0), ("b", 0)],
}


@pytest.fixture
def explain(run, put, put_rows):
    put("graders.py", GRADERS)
    put_rows(GROUPS)

    def command(function, *options):
        return run("explain", f"./graders.py:{function}", "--rows", "rows.jsonl", *options)

    return command


def test_every_step_is_shown(explain):
    done = explain("ranks")
    assert done.code == 0
    assert done.lines[0] == "mixed  (group 1 of 4)"
    assert [line[:2] for line in done.lines if line[:1].isdigit()] == ["1 ", "2 ", "3 ", "4 ", "5 "]
    assert "0 1 2 pass bb" in done.words
    assert "each with index, prompt, completion, reward, passed, group_id, task_id" in done.words
    assert "ranking: [1, 0]" in done.words
    assert "why: shorter is better" in done.words
    assert "ranking: 1 > 0, best first" in done.words
    assert "kept beside it: why" in done.words
    assert "factor by rollout: 0: 0.500, 1: 1.000" in done.words
    assert "lambda = sum of A / sum of f A over the passes = 0.6667 / 0.5 = 1.333" in done.words
    assert "The cap of 3 does not bind" in done.words
    assert "0 2 1 +0.333 0.500 +0.222" in done.words
    assert "1 1 1 +0.333 1.000 +0.444" in done.words
    assert "2 fail 0 -0.667 -0.667" in done.words
    assert "sum +0.000 +0.000" in done.words
    assert "The trainer gets 0.8889, 1.111, 0" in done.words


def test_a_tie_is_read_as_a_tie(explain):
    done = explain("ties")
    assert "ranking: 0 = 1, best first (1 tie)" in done.words
    assert "0 1= 1 +0.333 0.750 +0.333" in done.words


def test_a_hack_counts_as_failed(explain):
    done = explain("hunts", "--group", "hacked")
    assert "no order: it only looks for hacks hacks: 0" in done.words
    assert "Hacks count as failed from here on: 0." in done.words
    assert "0 hack 1 +0.333 -0.333" in done.words
    assert "1 1 1 +0.333 +0.667 1.000 +0.667" in done.words


def test_a_cap_that_binds_is_said(explain):
    done = explain("small")
    assert "= 0.6667 / 0.06667 = 10" in done.words
    assert "The cap of 3 binds: A' = 3 f A, and the mean is then subtracted again." in done.words


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("silent", "2 What it said null 3 What was read from it unusable, no_verdict: None is no verdict"),
        ("forgets", "unusable, missing_pass: passing index 1 has no place in the ranking"),
        (
            "raises",
            r"graders.py:23 in raises 3 What was read from it unusable, raised: ValueError: no model\x1b[31m today",
        ),
    ],
)
def test_an_answer_that_cannot_be_used_leaves_the_rewards(explain, function, said):
    done = explain(function)
    assert done.code == 0
    assert said in done.words
    assert "No usable answer: the group keeps its original rewards." in done.words
    assert "The trainer gets 1, 1, 0" in done.words
    assert "\x1b" not in done.out


def test_a_group_that_training_leaves_alone_says_why(explain):
    passed = explain("ranks", "--group", "passed")
    assert "Training leaves this group alone: every rollout passed" in passed.words
    assert "factor by rollout: 0: 1.000, 1: 0.500" in passed.words
    failed = explain("ranks", "--group", "failed")
    assert "It was not asked: no rollout passed" in failed.words
    assert "3 What was read" not in failed.words


def test_an_async_grader_is_awaited(explain):
    assert "ranking: 0 > 1, best first" in explain("later").words


def test_reward_mode_multiplies_scores(explain):
    done = explain("score", "--mode", "reward")
    assert '0 {"solution": 1.0, "behavior": 0.5}' in done.words
    assert "0 solution 1, behavior 0.5" in done.words
    assert "1 unusable, bad_scores: behavior is 2, not a number in [0, 1]" in done.words
    assert "a pass whose call failed takes the mean product of the others" in done.words
    assert "The trainer gets 0.5, 0.5, 0" in done.words


def test_json_has_every_step(explain):
    said = explain("ranks", "--json").json
    assert said["group"] == "mixed"
    assert said["rows"] == [0, 1, 2]
    assert said["rollouts"][0] == {"index": 0, "reward": 1.0, "passed": True, "completion": "bb"}
    (answer,) = said["answers"]
    assert answer["said"] == {"ranking": [1, 0], "why": "shorter is better"}
    assert answer["read"]["ranking"] == [[1], [0]]
    assert answer["failure"] is None
    assert said["lambda"] == pytest.approx(4 / 3)
    assert said["factors"] == {"0": 0.5, "1": 1.0}
    assert said["advantages_before"] == pytest.approx([1 / 3, 1 / 3, -2 / 3])
    assert said["advantages_after"] == pytest.approx([2 / 9, 4 / 9, -2 / 3])


def test_json_names_the_failure(explain):
    (answer,) = explain("forgets", "--json").json["answers"]
    assert answer["failure"] == {"kind": "missing_pass", "reason": "passing index 1 has no place in the ranking"}


def test_a_shipped_spec_explains_by_its_name(run, shipped_rows):
    done = run("explain", "rank_group", "--rows", shipped_rows, "--group", "refund-no-order")
    assert done.code == 0
    assert 'reasons: {"3": ["invented_id"]}' in done.words


def test_an_unknown_group_is_a_mistake_with_the_nearest_name(explain):
    done = explain("ranks", "--group", "mixxed")
    assert done.code == 2
    assert "did you mean 'mixed'?" in done.err
