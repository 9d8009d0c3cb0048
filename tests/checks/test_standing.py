"""What one object knows of its grader: who may shape, what a variant takes over, what travels."""

from __future__ import annotations

import dataclasses
import pickle
import threading
from typing import Any

import pytest

from whileai.checks.standing import Standing, is_compiled
from whileai.errors import UncheckedGraderError
from whileai.grading import GroupwiseGrading
from whileai.loader import load_grader

FEWEST = "spec: 1\nname: fewest\nkind: rules\nrank: [{least: 'completion.count(\"x\")'}]\nfallback: [rank_group]\n"
ROWS = [
    {"task_id": f"t{number}", "reward": reward, "completion": "x" * (count + number % 3) + f" {number}"}
    for number in range(30)
    for reward, count in ((1, 5), (1, 1), (1, 3), (0, 2))
]
GROUP = ROWS[:4]


def plain(group: list[dict[str, Any]]) -> dict[str, Any]:
    passes = [rollout for rollout in group if rollout["passed"]]
    return {"ranking": [r["index"] for r in sorted(passes, key=lambda r: r["completion"].count("x"))]}


def constant(group: list[dict[str, Any]]) -> dict[str, Any]:
    return {"ranking": [[rollout["index"] for rollout in group if rollout["passed"]]]}


@pytest.fixture
def compiled(project: Any) -> Any:
    (project / "fewest.yaml").write_text(FEWEST)
    return load_grader("fewest.yaml")


def usable(standing: Standing, accepted: str | None = None) -> Any:
    def knobs() -> Any:
        return GroupwiseGrading(plain)._gate_knobs()

    return standing.usable("it", knobs=knobs, certificate=None, accepted=accepted)


def test_what_is_compiled(compiled):
    assert is_compiled(compiled)
    assert not is_compiled(plain) and not is_compiled(type("Loose", (), {"links": ()})())


def test_a_plain_function_is_its_owners_own_until_its_check_says_no(caplog):
    standing = Standing(plain, None, (), None)
    assert usable(standing) is plain
    for _ in range(3):
        standing.warn_if_unchecked("it")
    assert caplog.text.count("it was never checked") == 1
    standing.checked(None)
    assert usable(standing) is plain
    standing.checked(False)
    with pytest.raises(UncheckedGraderError, match="it failed its check"):
        usable(standing)
    assert usable(standing, "a reason") is plain
    standing.checked(True)
    assert usable(standing) is plain


def test_a_compiled_grader_is_not_warned_about_it_is_refused(compiled, caplog):
    standing = Standing(compiled, None, (), None)
    standing.warn_if_unchecked("it")
    assert not caplog.text
    with pytest.raises(UncheckedGraderError, match="fewest may not train yet"):
        usable(standing)
    assert usable(standing, "a reason") is compiled


def test_what_a_variant_takes_over(compiled):
    checked = GroupwiseGrading(compiled)
    checked.check_spread(ROWS)
    checked.group(GROUP)
    assert dataclasses.replace(checked, cap=2.0)._standing.admission is checked._standing.admission
    assert dataclasses.replace(checked, min_factor=0.6)._standing.admission is None
    assert dataclasses.replace(checked, grader=load_grader("fewest.yaml"))._standing.admission is None
    refused = GroupwiseGrading(constant)
    refused.check_spread(ROWS, strict=False)
    with pytest.raises(UncheckedGraderError):
        dataclasses.replace(refused, cap=2.0).group(GROUP)
    assert dataclasses.replace(refused, grader=plain).group(GROUP)


def test_a_check_decides_anew(compiled):
    grading = GroupwiseGrading(compiled)
    with pytest.raises(UncheckedGraderError):
        grading.group(GROUP)
    grading.check_spread(ROWS)
    assert len(set(grading.group(GROUP))) == 4
    admission = grading._standing.admission
    assert grading.group(GROUP) and grading._standing.admission is admission


def test_a_later_no_takes_back_what_was_decided(compiled):
    grading = GroupwiseGrading(compiled)
    grading.check_spread(ROWS)
    assert len(set(grading.group(GROUP))) == 4
    tied = [{**row, "completion": f"x {number}"} for number, row in enumerate(ROWS)]
    assert grading.check_spread(tied, strict=False).verdict == "no"
    with pytest.raises(UncheckedGraderError, match="its last check said no"):
        grading.group(GROUP)


def test_what_was_found_is_taken_by_an_object_that_found_nothing(compiled, project):
    grading = GroupwiseGrading(compiled)
    assert grading.export_check() is None
    grading.check_spread(ROWS)
    found = pickle.loads(pickle.dumps(grading.export_check()))
    (project / ".whileai").rename(project / "gone")
    other = pickle.loads(pickle.dumps(GroupwiseGrading(compiled)))
    other.import_check(found)
    assert other.group(GROUP) == grading.group(GROUP)
    assert other._standing.admission.skipped == {"rank_group": "it has no certificate"}


def test_it_pickles_with_what_it_knows(compiled):
    grading = GroupwiseGrading(compiled)
    grading.check_spread(ROWS)
    grading.group(GROUP)
    again = pickle.loads(pickle.dumps(grading))
    assert list(again._standing.admission.certificates) == ["fewest"]
    assert again._standing.admission.grader.skipped == ("rank_group",)


def test_many_threads_decide_the_same(compiled):
    GroupwiseGrading(compiled).check_spread(ROWS)
    grading = GroupwiseGrading(load_grader("fewest.yaml"))
    shaped: list[Any] = []
    threads = [threading.Thread(target=lambda: shaped.append(grading.group(GROUP))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(shaped) == 16 and all(rewards == shaped[0] for rewards in shaped)
