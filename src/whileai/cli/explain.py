"""`whileai explain`: one group from rollouts to advantages, step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whileai.cli import output
from whileai.cli.options import GroupSize, Json, Mode, Models, OneGroup, Record, Rows, Target

if TYPE_CHECKING:
    from whileai.cli.explanation import Answer, Explanation
    from whileai.grading import GroupwiseGrading


def explain(
    target: Target,
    rows: Rows,
    group: OneGroup = None,
    mode: Mode = None,
    group_size: GroupSize = None,
    model: Models = None,
    record: Record = False,
    json: Json = False,
) -> None:
    """Follow one group from rollouts to advantages, step by step."""
    from whileai.checks.rows import read_rows
    from whileai.cli.explanation import calls_of, choose_group, explain_group, group_names
    from whileai.cli.spending import say_spending
    from whileai.cli.steps import show
    from whileai.cli.targets import grading_of
    from whileai.core.group import groups_from_rows

    with output.graders_aside():
        grading = grading_of(target, mode, model, record=record)
    groups = group_names(
        groups_from_rows(read_rows(rows), group_size=group_size, pass_threshold=grading.pass_threshold)
    )
    name = choose_group(groups, group)
    say_spending(grading.grader, calls_of(grading.mode, groups[name].rollouts))
    with output.graders_aside():
        explanation = explain_group(grading, groups[name])
    if json:
        output.print_json(_as_json(grading, explanation, name))
    else:
        show(grading, explanation, f"{name}  (group {list(groups).index(name) + 1} of {len(groups)})")


def _as_json(grading: GroupwiseGrading, explanation: Explanation, name: str) -> dict[str, Any]:
    shape = explanation.shape
    return {
        "group": name,
        "rows": explanation.group.positions,
        "mode": grading.mode,
        "rollouts": [
            {key: rollout[key] for key in ("index", "reward", "passed", "completion")}
            for rollout in explanation.group.rollouts
        ],
        "answers": [_answer_json(answer) for answer in explanation.answers],
        "left_alone": explanation.left_alone or None,
        "factors": shape.factors,
        "hacks": shape.hacks,
        "lambda": shape.moved,
        "cap": grading.cap,
        "capped": shape.capped,
        "advantages_before": explanation.before,
        "advantages_after": explanation.after,
        "rewards": shape.rewards,
    }


def _answer_json(answer: Answer) -> dict[str, Any]:
    failure = output.failure_json(answer.failure)
    return {"index": answer.index, "said": answer.said, "read": answer.read, "failure": failure}
