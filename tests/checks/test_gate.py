import io
import json
import threading
from dataclasses import replace

import pytest

from whileai.checks.gate import plan_gate, run_gate
from whileai.checks.golden import load_golden
from whileai.checks.votes import GateKnobs
from whileai.errors import BatchError, BudgetExceeded, ConfigError
from whileai.spec.models import CheckRules

SERIAL = GateKnobs(concurrency=1)


def at_once(call, items, *, read, concurrency=None, timeout_s=None, progress=None):
    """`run_calls` without threads, so that graders with a random generator are deterministic."""
    found = []
    for item in items:
        try:
            found.append(read(call(item), item) if read else call(item))
        except (ValueError, RuntimeError, BudgetExceeded) as error:
            found.append(error)
    return found


def check(grader, rows, **options):
    return run_gate(grader, rows, knobs=SERIAL, run=at_once, **options)


@pytest.fixture(scope="session")
def forty(graders):
    return graders.rows(40)


TRIALS = {  # of graders.BAD; tests/benchmarks/bench_gate.py runs all of them, and often
    "random": 20,
    "shown order": 20,
    "ends first": 20,
    "constant inside": 20,
    "fails every third call": 20,
    "ends first, no ties": 5,
    "call parity": 5,
    "one random above the rest": 5,
    "steady hack, random rest": 5,
    "random hacks": 5,
    "all but the first are hacks": 5,
    "marks what it saw": 5,
    "noise in factors": 5,
    "snr 4, likes the first": 5,
}


@pytest.mark.parametrize("name", TRIALS)
def test_a_bad_grader_never_gets_a_yes(graders, name):
    for trial in range(TRIALS[name]):
        report = check(graders.BAD[name](trial), graders.rows(40, seed=trial))
        assert report.verdict != "yes", str(report)


@pytest.mark.parametrize("name", ["snr 4", "few tied levels"])
def test_a_good_grader_gets_its_yes(graders, name):
    answers = [check(graders.GOOD[name](trial), graders.rows(40, seed=trial)).verdict for trial in range(20)]
    assert answers.count("yes") >= 18


def test_noise_is_refused_by_the_figure_that_sees_it(graders, forty):
    def no(name):
        report = check(graders.BAD[name](0), forty)
        assert report.verdict == "no"
        return {figure.name for figure in report.figures if figure.answer == "no"}

    assert no("random") == {"retest"}
    assert {"retest", "order"} <= no("shown order")
    assert "middle" in no("ends first")
    assert no("constant inside") == {"within groups", "moved mass"}
    assert no("fails every third call") == {"failures"}
    assert no("random hacks") == {"hacks repeat"}


def test_a_hash_passes_and_the_report_says_what_was_not_tested(graders, forty):
    report = check(graders.by_hash(0), forty)
    assert report.ok
    assert "validity untested" in str(report)


def test_golden_cases_refuse_a_hash(graders, forty, tmp_path):
    cases = "".join(
        f"  - name: pair {n}\n    group: [{{completion: 'q={n}'}}, {{completion: 'q={n + 1}'}}]\n    better: [[1, 0]]\n"
        for n in range(24)
    )
    path = tmp_path / "g.golden.yaml"
    path.write_text(f"golden: 1\ncases:\n{cases}")
    golden = load_golden(path)
    hashed = graders.by_hash(0)
    report = check(hashed, plan_gate(hashed, forty, golden=golden))
    assert report.verdict != "yes"
    assert report.figure("golden pairs").answer != "yes"
    exact = graders.GOOD["exact"](0)
    report = check(exact, plan_gate(exact, forty, golden=golden))
    assert report.ok
    assert report.figure("golden pairs").value == 1
    assert "validity untested" not in str(report)


def test_a_broken_golden_case_is_a_no(graders, forty, tmp_path):
    path = tmp_path / "g.golden.yaml"
    path.write_text(
        "golden: 1\ncases:\n  - name: worse first\n"
        "    group: [{completion: 'q=1'}, {completion: 'q=2'}]\n    ranking: [0, 1]\n"
    )
    exact = graders.GOOD["exact"](0)
    report = check(exact, plan_gate(exact, forty, golden=load_golden(path)))
    assert report.verdict == "no"
    assert "worse first" in report.figure("golden").seen


def test_what_is_a_no_already_is_said_when_data_are_wanting(graders, tmp_path):
    path = tmp_path / "g.golden.yaml"
    path.write_text(
        "golden: 1\ncases:\n  - name: worse first\n"
        "    group: [{completion: 'q=1'}, {completion: 'q=2'}]\n    ranking: [0, 1]\n"
    )
    exact = graders.GOOD["exact"](0)
    report = check(exact, plan_gate(exact, graders.rows(19), golden=load_golden(path)))
    assert report.conclusion == (
        "not enough data, left open by size. What to do: give 1 more group with two or more passes. "
        "So far no: golden. What to do: run `whileai test` and look at the cases that fail."
    )


def test_size_decides_before_everything_but_failures(graders):
    few = graders.rows(19)
    assert check(graders.GOOD["exact"](0), few).verdict == "not enough data"
    assert check(graders.BAD["constant inside"](0), few).verdict == "not enough data"
    assert check(graders.BAD["fails every third call"](0), few).verdict == "no"
    pairs = graders.rows(39, sizes=(2,))
    report = check(graders.GOOD["exact"](0), pairs)
    assert report.verdict == "not enough data"
    assert report.figure("size").seen == "39 groups with two or more passes, 39 of 40 pairs"
    assert "1 more pair of passes" in report.conclusion
    assert check(graders.GOOD["exact"](0), graders.rows(40, sizes=(2,))).ok
    assert report.exit_code == 3


def test_no_rows_and_no_passes(graders):
    exact = graders.GOOD["exact"](0)
    assert check(exact, []).verdict == "not enough data"
    failures = [{"group_id": "a", "reward": 0, "completion": "x"}] * 4
    report = check(exact, failures)
    assert (report.groups, report.judged, report.calls, report.verdict) == (1, 0, 0, "not enough data")
    with pytest.raises(BatchError, match="row 0"):
        check(exact, [{"reward": 1, "completion": "x"}])


def test_every_call_failing_is_a_no_without_figures(graders, forty):
    def down(group):
        raise RuntimeError("no key")

    report = check(down, forty)
    assert report.verdict == "no"
    assert report.failures == (("raised", 80, "RuntimeError: no key"),)
    assert "raised: RuntimeError: no key" in str(report)


def test_failures_up_to_a_tenth_are_borne(graders, forty):
    state = {"calls": 0}
    exact = graders.GOOD["exact"](0)

    def flaky(group):
        state["calls"] += 1
        return {"ranking": []} if state["calls"] % 10 == 0 else exact(group)

    report = check(flaky, forty)
    assert report.ok
    assert (report.failed, report.failures[0][:2]) == (8, ("missing_pass", 8))


def test_calls_that_were_never_made_are_no_failures(graders, forty):
    state = {"calls": 0}
    exact = graders.GOOD["exact"](0)

    def poor(group):
        state["calls"] += 1
        if state["calls"] > 30:
            raise BudgetExceeded("budget", "the budget of 30 calls is spent")
        return exact(group)

    report = check(poor, forty)
    assert report.verdict == "not enough data"
    assert (report.calls, report.failed) == (30, 0)
    assert "50 calls were not made: the budget of 30 calls is spent" in str(report)


def test_copies_of_a_group_do_not_count_twice(graders):
    rows = graders.rows(10)
    copies = [{**row, "group_id": f"{row['group_id']} again {n}"} for n in range(4) for row in reversed(rows)]
    report = check(graders.GOOD["exact"](0), rows + copies)
    assert report.judged == 10
    assert report.verdict == "not enough data"
    assert "40 groups hold the same rollouts" in str(report)


def test_groups_of_the_same_texts_under_other_tasks_are_shown_in_orders_of_their_own(graders):
    texts = ("done", "refunded", "cancelled", "nothing to do")
    rows = [{"group_id": n, "ticket": n, "reward": 1, "completion": text} for n in range(40) for text in texts]
    report = check(graders.BAD["shown order"](0), rows)
    assert report.judged == 40
    assert report.verdict == "no"
    assert check(graders.BAD["shown order"](0), [{**row, "ticket": 0} for row in rows]).judged == 1


def test_rules_tighten_and_loosen_with_a_reason(graders, forty):
    exact = graders.GOOD["exact"](0)
    assert check(exact, forty, rules=CheckRules(min_groups=41)).verdict == "not enough data"
    assert check(exact, forty, rules=CheckRules(min_moved=0.5)).verdict == "no"
    loose = CheckRules(min_groups=5, min_pairs=10, because="a pilot on few tasks, plain rewards after it")
    report = check(exact, graders.rows(8), rules=loose)
    assert report.ok
    assert report.loosened == {"min_groups": 5, "min_pairs": 10}
    assert "because: a pilot on few tasks" in str(report)


def test_plan_says_what_it_takes_and_calls_nothing(graders, forty, tmp_path):
    def never(group):
        raise AssertionError

    plan = plan_gate(never, forty, name="judge", price=lambda group: 0.01)
    assert str(plan) == (
        "check of judge: 80 calls for 40 of 40 groups (two or more passes, each in two random orders), about $0.80"
    )
    assert plan_gate(never, forty, price=lambda group: None).usd is None
    assert "price unknown" in str(plan_gate(never, forty, price=lambda group: None))
    assert "$" not in str(plan_gate(never, forty))
    reward = plan_gate(never, forty, knobs=GateKnobs(mode="reward"))
    assert reward.calls == 2 * sum(row["reward"] for row in forty)
    with pytest.raises(ConfigError, match="planned for mode='reward'"):
        check(never, reward)


def test_a_grader_with_one_vote_at_a_time_is_asked_for_it(graders, forty):
    exact = graders.GOOD["exact"](0)
    repeats = []

    class Judge:
        name = "judge"
        orders = 2

        def __call__(self, group):
            raise AssertionError("combined verdicts are not what is compared")

        def single_vote(self, group, *, repeat):
            repeats.append(repeat)
            return exact(group)

    report = check(Judge(), forty)
    assert report.ok
    assert report.grader == "judge"
    assert sorted(repeats) == [0] * 40 + [1] * 40
    assert "2 votes combined about 1.00" in report.figure("retest").seen


def test_the_same_check_asks_the_same_and_says_the_same(graders, forty):
    def run(rows):
        seen = []

        def grader(group):
            seen.append([r["completion"] for r in group])
            return graders.by_hash(1)(group)

        return check(grader, rows), seen

    first, asked = run(forty)
    again, asked_again = run(forty)
    assert (first, asked) == (again, asked_again)
    others = [{**row, "group_id": f"other {row['group_id']}"} for row in graders.rows(5, seed=9)]
    _, more = run(forty + others)
    assert all(question in more for question in asked)


def test_it_runs_on_threads_and_on_the_loop_and_tells_its_progress(graders, forty):
    exact = graders.GOOD["exact"](0)
    threads, progress = set(), []

    def sync(group):
        threads.add(threading.current_thread().name)
        return exact(group)

    async def later(group):
        return exact(group)

    report = run_gate(sync, forty, progress=lambda done, total: progress.append((done, total)))
    assert report.ok
    assert report == replace(run_gate(later, forty), grader="sync")
    assert threads == {"whileai-grader"}
    assert progress[-1] == (80, 80)


def test_hacks_that_repeat_are_left_out_of_the_ranking(graders, forty):
    exact = graders.GOOD["exact"](0)

    def with_hacks(group):
        hacks = [r["index"] for r in group if r["passed"] and graders.quality(r) < -1]
        return {**exact(group), "hacks": hacks}

    report = check(with_hacks, forty)
    assert report.ok
    assert report.figure("hacks repeat").value == 1


def hack_cases(tmp_path, hacks, clean):
    lines = ["golden: 1", "cases:"]
    for number in range(max(hacks, clean)):
        group = [f"{{completion: 'clean {number}'}}"] if number < clean else []
        if number < hacks:
            group.append(f"{{completion: 'ORD-9999 {number}'}}")
        labelled = [len(group) - 1] if number < hacks else []
        lines.append(f"  - {{name: case {number}, group: [{', '.join(group)}], hacks: {labelled}}}")
    path = tmp_path / "h.golden.yaml"
    path.write_text("\n".join(lines))
    return load_golden(path)


def test_a_grader_of_hacks_alone_is_judged_by_labels(graders, forty, tmp_path):
    def hunter(group):
        return {"hacks": [r["index"] for r in group if "ORD-9999" in r["completion"]]}

    def blind(group):
        return {"hacks": []}

    def wild(group):
        return {"hacks": [r["index"] for r in group if r["passed"]]}

    def verdict(grader, hacks=20, clean=40):
        plan = plan_gate(grader, forty, golden=hack_cases(tmp_path, hacks, clean))
        return check(grader, plan)

    report = verdict(hunter)
    assert report.ok, str(report)
    assert [figure.name for figure in report.figures] == ["failures", "size", "hack recall", "false hacks", "golden"]
    assert verdict(hunter, hacks=9).verdict == "not enough data"
    assert verdict(hunter, clean=19).verdict == "not enough data"
    assert verdict(blind).figure("hack recall").answer == "no"
    assert verdict(wild).figure("false hacks").answer == "no"
    assert check(hunter, forty).verdict == "not enough data"


def test_reward_mode_scores_each_pass_twice(graders, forty):
    knobs = GateKnobs(mode="reward", concurrency=1, rubrics={f"g{n}": [n] for n in range(40)})

    def run(score):
        return run_gate(score, forty, knobs=knobs, run=at_once)

    def good(rollout, rubric):
        assert rollout["group_id"] == f"g{rubric[0]}"
        return {"solution": 1.0, "behavior": min(1.0, max(0.0, 0.5 + graders.quality(rollout) / 4))}

    def by_index(rollout, rubric):
        return {"solution": 1.0, "behavior": 1 / (1 + rollout["index"])}

    def constant(rollout, rubric):
        return {"solution": 1.0, "behavior": 0.9}

    report = run(good)
    assert report.ok, str(report)
    assert report.calls == 2 * sum(row["reward"] for row in forty)
    assert {"retest", "order"} <= {figure.name for figure in run(by_index).figures if figure.answer == "no"}
    assert run(constant).verdict == "no"
    assert run(lambda rollout, rubric: {"solution": 3}).failures[0][0] == "bad_scores"


def test_reward_mode_without_a_rubric_counts_as_failure(graders, forty):
    knobs = GateKnobs(mode="reward", concurrency=1, rubrics={"g0": ["x"]})
    report = run_gate(lambda rollout, rubric: {"solution": 1, "behavior": 1}, forty, knobs=knobs)
    assert report.verdict == "no"
    assert report.failures[0][0] == "missing_rubric"


def test_json_is_plain_and_has_every_figure(graders, forty):
    report = check(graders.BAD["random"](0), forty)
    said = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert said["verdict"] == report.verdict
    assert [figure["name"] for figure in said["figures"]] == [
        "failures", "size", "spread", "within groups", "retest", "order", "middle", "moved mass",
    ]  # fmt: skip
    assert "q=" not in json.dumps(said)
    with pytest.raises(KeyError, match="retest"):
        report.figure("no such figure")


def test_rich_and_plain_say_the_same(graders, forty):
    from rich.console import Console

    report = check(graders.GOOD["exact"](0), forty)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(report)
    shown = console.export_text()
    for figure in report.figures:
        assert figure.seen in shown
        assert figure.seen in str(report)
    assert report.conclusion in shown
    assert str(report).splitlines()[-1] == f"check: {report.conclusion}"
