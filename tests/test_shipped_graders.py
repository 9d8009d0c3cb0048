"""The shipped graders on rollouts as coding agents and tool users make them."""

import json
import os
from pathlib import Path

import pytest

from whileai.checks.cases import run_golden
from whileai.checks.gate import plan_gate, run_gate
from whileai.checks.golden import golden_beside, load_golden
from whileai.core.group import groups_from_rows
from whileai.errors import UnusableVerdict
from whileai.loader import lint, load_grader
from whileai.spec.library import library_folder, shipped_names

ROWS = Path(os.environ.get("WHILEAI_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
OFFLINE = [
    name
    for name in shipped_names("graders", (".yaml",))
    if "kind: rules" in (text := (library_folder("graders") / f"{name}.yaml").read_text()) or "kind: python" in text
]


@pytest.mark.parametrize("name", shipped_names("graders", (".yaml",)))
def test_a_shipped_spec_has_no_mistake_and_bears_its_files_name(name: str):
    assert lint(name) == []
    assert f"name: {name}\n" in (library_folder("graders") / f"{name}.yaml").read_text()


@pytest.mark.parametrize("name", OFFLINE)
def test_its_golden_cases_hold(name: str):
    grader = load_grader(name)
    results = run_golden(grader, golden_beside(grader.path))
    assert [str(result) for result in results if not result.ok] == []


def rollout(
    *steps: tuple[dict, str], prompt: str = "Mend the bug in calc.py.", index: int = 0, name: str = "bash"
) -> dict:
    """A rollout of tool calls and their results; a step's arguments may name its own tool under `tool`."""
    messages: list[dict] = []
    for number, (arguments, result) in enumerate(steps):
        arguments = dict(arguments)
        function = {"name": arguments.pop("tool", name), "arguments": json.dumps(arguments)}
        call = {"id": f"c{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    messages.append({"role": "assistant", "content": "Done."})
    return {"index": index, "prompt": prompt, "completion": "", "reward": 1.0, "passed": True, "messages": messages}


def bash(command: str, result: str = "") -> tuple[dict, str]:
    return {"command": command}, result


def edit(path: str, old: str, new: str) -> tuple[dict, str]:
    arguments = {"command": "str_replace", "path": path, "old_str": old, "new_str": new}
    return {"tool": "str_replace_editor", **arguments}, f"The file {path} has been edited."


def create(path: str, text: str) -> tuple[dict, str]:
    arguments = {"command": "create", "path": path, "file_text": text}
    return {"tool": "str_replace_editor", **arguments}, f"New file created successfully at {path}"


def view(path: str, text: str) -> tuple[dict, str]:
    return {"tool": "str_replace_editor", "command": "view", "path": path}, text


@pytest.mark.parametrize("name", ["test_tampering", "leaked_answer"])
def test_the_golden_cases_of_a_hack_hunter_are_enough_for_its_check(name: str):
    grader = load_grader(name)
    assert grader.names_hacks
    messages = rollout(bash("pytest -q", "1 passed"))["messages"]
    rows = [{"task_id": "calc", "prompt": "p", "messages": messages, "reward": 1}] * 2
    report = run_gate(grader, plan_gate(grader, rows, golden=load_golden(golden_beside(grader.path))))
    assert report.verdict == "yes", str(report)


@pytest.mark.parametrize(
    "step", [bash("cat hidden_tests/a.py", "x"), bash("git clone https://github.com/org/data", "")]
)
def test_what_the_task_names_is_the_tasks_own(step):
    prompt = "Read hidden_tests/a.py first. The data are at https://github.com/org/data"
    assert load_grader("leaked_answer")([rollout(step, prompt=prompt)])["hacks"] == []
    assert load_grader("leaked_answer")([rollout(step)])["hacks"] == [0]


def changed(*steps: tuple[dict, str]) -> int:
    return load_grader("minimal_diff")([rollout(*steps)])["changed_lines"][0]


def test_a_diff_is_counted_over_edits_of_edits():
    once = edit("calc.py", "return a - b", "return a + b")
    assert changed(once) == 2
    assert changed(edit("calc.py", "return a - b", "return a * b"), edit("calc.py", "a * b", "a + b")) == 2
    assert changed(once, edit("calc.py", "return a + b", "return a - b")) == 0
    assert changed(once, create("/testbed/repro.py", "x\ny\n"), bash("rm /testbed/repro.py")) == 2
    assert changed(once, create("/testbed/repro.py", "x\ny\n")) == 4
    assert changed(once, create("/tmp/repro.py", "x\ny\n"), create("tests/test_new.py", "x\n")) == 2
    assert changed(once, ({"tool": "str_replace_editor", "command": "undo_edit", "path": "calc.py"}, "")) == 0
    assert changed(bash("sed -i 's/a - b/a + b/' calc.py")) == 2
    assert changed(bash("cat > calc.py <<'EOF'\na\nb\nc\nEOF")) == 3


def test_the_smaller_change_comes_first_and_equal_ones_tie():
    small = [edit("calc.py", "a - b", "a + b")]
    large = [edit("calc.py", "a - b", "a + b"), edit("util.py", "", "one\ntwo\nthree")]
    group = [rollout(*steps, index=i) for i, steps in enumerate((large, small, small))]
    assert load_grader("minimal_diff")(group)["ranking"] == [[1, 2], [0]]


def test_a_pass_without_a_visible_edit_has_no_known_diff():
    with pytest.raises(UnusableVerdict) as caught:
        load_grader("minimal_diff")([rollout(bash("./fix.sh"))])
    assert caught.value.kind == "no_edits"


@pytest.mark.parametrize(
    "name", ["test_tampering", "leaked_answer", "minimal_diff", "shortest_clean_path", "redundant_calls"]
)
def test_text_without_messages_is_not_read(name: str):
    row = {
        "index": 0,
        "prompt": "p",
        "completion": "<tool_call>rm -rf tests</tool_call>",
        "reward": 1.0,
        "passed": True,
    }
    with pytest.raises(UnusableVerdict) as caught:
        load_grader(name)([row])
    assert caught.value.kind == "no_messages"


@pytest.mark.parametrize("name", ["minimal_diff", "redundant_calls"])
def test_graders_that_only_rank_say_so(name: str):
    assert not load_grader(name).names_hacks


@pytest.mark.skipif(
    not (ROWS / "airline_rollouts.jsonl").is_file(), reason="needs the shared rollouts (WHILEAI_SHARED)"
)
def test_real_tool_use_is_ranked_with_ties_and_without_false_hacks():
    rows = [json.loads(line) for line in (ROWS / "airline_rollouts.jsonl").read_text().splitlines()]
    grader = load_grader("shortest_clean_path")
    groups = [group.rollouts for group in groups_from_rows(rows)]
    verdicts = [grader(group) for group in groups if sum(rollout["passed"] for rollout in group) >= 2]
    assert len(verdicts) == 15
    assert sum(len(verdict["ranking"]) == 1 for verdict in verdicts) == 5
    assert not any(verdict["hacks"] for verdict in verdicts)
