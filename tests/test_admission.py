"""Who may train: a compiled grader reaches `group`, `shape` and `trl_reward` with a valid certificate, or not at all."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pickle
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loopback.judges import judge, quality
from whileai.errors import ConfigError, UncheckedGraderError
from whileai.grading import GroupwiseGrading
from whileai.loader import load_grader

FEWEST = "spec: 1\nname: fewest\nkind: rules\nrank: [{least: 'completion.count(\"x\")'}]\n"
CONSTANT = "spec: 1\nname: constant\nkind: rules\nrank: [{least: 'len(prompt) * 0'}]\n".replace("len(prompt)", "turns")
OWN = "spec: 1\nname: own\nkind: python\nfunction: ./own.py:grade\nfallback: [./fewest.yaml]\n"
GRADE = """
def grade(group):
    passes = [rollout for rollout in group if rollout["passed"]]
    if "unusual" in group[0]["prompt"]:
        raise ValueError("not my kind of task")
    return {"ranking": [r["index"] for r in sorted(passes, key=lambda r: r["completion"].count("x"))]}
"""


@pytest.fixture
def graders(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a grader of rules, one that is constant, and one of Python with a fallback."""
    monkeypatch.delenv("WHILEAI_CERTS", raising=False)
    for name, text in {"fewest.yaml": FEWEST, "constant.yaml": CONSTANT, "own.yaml": OWN, "own.py": GRADE}.items():
        (project / name).write_text(text)
    return project


def rows_of(groups: int) -> list[dict[str, Any]]:
    draw = random.Random(1)
    return [
        {"task_id": f"t{number}", "reward": reward, "prompt": "p", "completion": "x" * count + f" {number}"}
        for number in range(groups)
        for reward, count in [*((1, count) for count in draw.sample(range(9), 3)), (0, 4)]
    ]


ROWS = rows_of(30)
GROUP = [{key: row[key] for key in ("reward", "prompt", "completion")} for row in ROWS[:4]]


def verifier(prompts: Any, completions: Any, **columns: Any) -> list[float]:
    return [0.0 if completion.startswith("xxxx ") else 1.0 for completion in completions]


def ways(grading: GroupwiseGrading) -> dict[str, Any]:
    """The three ways on which rewards are shaped."""
    prompts, completions = [row["prompt"] for row in GROUP], [row["completion"] for row in GROUP]
    return {
        "group": lambda: grading.group(GROUP),
        "shape": lambda: grading.shape([row["reward"] for row in GROUP], prompts, completions, group_size=4),
        "trl_reward": lambda: grading.trl_reward(verifier, 4)(prompts, completions),
    }


def refusals(spec: str, **options: Any) -> dict[str, str]:
    """What each way says that refuses; a way that does not refuse is missing."""
    said = {}
    for name in ("group", "shape", "trl_reward"):
        grading = GroupwiseGrading(load_grader(spec), **options)
        try:
            ways(grading)[name]()
        except UncheckedGraderError as error:
            said[name] = str(error)
    return said


def refused(spec: str, *words: str, **options: Any) -> None:
    said = refusals(spec, **options)
    assert list(said) == ["group", "shape", "trl_reward"]
    for text in said.values():
        for word in (*words, f"`whileai check {spec} --rows ROWS`", "accept_unchecked="):
            assert word in text


def test_unchecked_refused_stale_and_valid(graders):
    refused("fewest.yaml", "fewest may not train yet: it has no certificate")
    assert load_grader("constant.yaml").check(ROWS).verdict == "no"
    refused("constant.yaml", "constant may not train yet: its last check said no (")
    assert load_grader("fewest.yaml").check(ROWS).verdict == "yes"
    for name, way in ways(GroupwiseGrading(load_grader("fewest.yaml"))).items():
        shaped = way()
        assert len(set(shaped)) > 2, name
    (graders / "fewest.yaml").write_text(FEWEST.replace("least", "most"))
    refused("fewest.yaml", "fewest may not train yet: its certificate", "is stale: spec changed")


def in_another_process(code: str, cwd: Path, *, home: Path | None = None) -> str:
    """What code prints in a process of its own, which has seen no check."""
    path = os.pathsep.join([str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": path, "HOME": str(home or cwd), "USER": "somebody"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, env=environment, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LOOK = """
from whileai.errors import ConfigError, UncheckedGraderError
from whileai.grading import GroupwiseGrading
from whileai.loader import load_grader
rows = [{"reward": r, "prompt": "p", "completion": c} for r, c in ((1, "x"), (1, "xx"), (0, ""))]
try:
    print(GroupwiseGrading(load_grader("own.yaml")).group(rows)[0] > 1)
except UncheckedGraderError as error:
    print(error)
"""


def test_a_certificate_is_valid_in_a_copy_of_the_project_elsewhere_and_after_crlf_conversion(graders, tmp_path):
    assert load_grader("own.yaml").check(ROWS).verdict == "yes"
    assert in_another_process(LOOK, graders) == "True\n"
    copy = tmp_path / "elsewhere" / "of" / "somebody"
    shutil.copytree(graders, copy)
    shutil.rmtree(graders)
    for path in [path for path in copy.rglob("*") if path.suffix in (".yaml", ".py", ".json")]:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert in_another_process(LOOK, copy, home=tmp_path) == "True\n"
    deeper = copy / "notebooks"
    deeper.mkdir()
    assert in_another_process(LOOK.replace('"own.yaml"', '"../own.yaml"'), deeper) == "True\n"
    (copy / "own.py").write_text(GRADE.replace("x", "y"))
    assert "is stale: function changed" in in_another_process(LOOK, copy)


def test_it_is_found_at_the_argument_and_the_variable(graders, tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    assert load_grader("fewest.yaml").check(ROWS, certificate=kept).verdict == "yes"
    (found,) = kept.iterdir()
    assert not (graders / ".whileai" / "certs").exists()
    refused_text = in_another_process(LOOK.replace("own.yaml", "fewest.yaml"), graders)
    assert "it has no certificate" in refused_text
    for given in (kept, found):
        argument = LOOK.replace('load_grader("own.yaml")', f'load_grader("fewest.yaml"), certificate={str(given)!r}')
        assert in_another_process(argument, graders) == "True\n"
    monkeypatch.setenv("WHILEAI_CERTS", str(kept))
    assert in_another_process(LOOK.replace("own.yaml", "fewest.yaml"), graders) == "True\n"


def test_never_beside_a_spec_that_came_from_elsewhere(graders, tmp_path):
    assert load_grader("fewest.yaml").check(ROWS).verdict == "yes"
    shutil.copytree(graders, tmp_path / "foreign")
    own = tmp_path / "own"
    own.mkdir()
    said = in_another_process(LOOK.replace('"own.yaml"', '"../foreign/fewest.yaml"'), own)
    assert "it has no certificate" in said


PICKLED = """
import pickle
grading, reward = pickle.load(open("../pickled", "rb"))
rows = [{"reward": r, "prompt": "p", "completion": c} for r, c in ((1, "x"), (1, "xx"), (0, ""))]
print(grading.group(rows)[0] > 1)
print(reward(["p"] * 4, ["x 1", "xx 2", "xxxx 3", "xxx 4"])[0] > 1)
print(grading.stats.groups, reward.shaper.stats.groups)
"""


def test_it_travels_in_a_pickle_to_a_process_that_finds_no_certificate(graders, tmp_path, monkeypatch):
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    (nowhere / "own_verifier.py").write_text(
        "def verify(prompts, completions, **columns):\n    return [1.0, 1.0, 0.0, 1.0]\n"
    )
    monkeypatch.syspath_prepend(nowhere)
    verify = importlib.import_module("own_verifier").verify
    assert load_grader("own.yaml").check(ROWS).verdict == "yes"
    grading = GroupwiseGrading(load_grader("own.yaml"))
    grading.group(GROUP)
    (tmp_path / "pickled").write_bytes(pickle.dumps((grading, grading.trl_reward(verify, 4))))
    shutil.rmtree(graders)
    assert in_another_process(PICKLED, nowhere).split() == ["True", "True", "2", "2"]  # one object in both


def test_a_pickle_does_not_bring_its_certificate_to_another_text_of_its_module(graders, tmp_path, monkeypatch):
    (graders / "own_module.py").write_text(GRADE)
    (graders / "own.yaml").write_text("spec: 1\nname: own\nkind: python\nfunction: own_module:grade\n")
    monkeypatch.syspath_prepend(graders)
    assert load_grader("own.yaml").check(ROWS).verdict == "yes"
    grading = GroupwiseGrading(load_grader("own.yaml"))
    grading.group(GROUP)
    (tmp_path / "pickled").write_bytes(pickle.dumps(grading))
    (graders / "own_module.py").write_text(GRADE.replace('count("x")', 'count("y")'))
    program = """
import pickle, sys
from whileai.errors import ConfigError
sys.path.insert(0, sys.argv[1])
try:
    pickle.loads(open("../pickled", "rb").read())
except ConfigError as error:
    print(error)
"""
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    assert in_another_process(program.replace("sys.argv[1]", repr(str(graders))), nowhere).startswith(
        "own: its function here differs from"
    )


@pytest.mark.parametrize("method", ["agrade", "__call__"])
def test_a_method_of_a_compiled_grader_is_no_way_round(graders, method):
    with pytest.raises(ConfigError, match="give fewest itself"):
        GroupwiseGrading(getattr(load_grader("fewest.yaml"), method))


def test_an_unchecked_fallback_is_skipped_and_named(graders, caplog):
    load_grader("own.yaml").check(ROWS)
    grading = GroupwiseGrading(load_grader("own.yaml"))
    assert len(set(grading.group(GROUP))) == 4
    assert (
        "own: the link fewest is left out: it has no certificate; `whileai check own.yaml --rows ROWS --link all` "
        "checks every link"
    ) in caplog.text
    unusual = [{**row, "prompt": "unusual"} for row in GROUP]
    assert grading.group(unusual) == [row["reward"] for row in unusual]
    assert "fewest: skipped, no valid certificate" in grading.stats.reasons["raised"]
    grading.grader.links[1].check(ROWS)
    both = GroupwiseGrading(load_grader("own.yaml"))
    assert len(set(both.group(unusual))) == 4
    assert both.stats.answered == {"fewest": 1}


def test_further_models_of_a_judge_need_a_certificate_each(roles, server, write, caplog, monkeypatch):
    monkeypatch.delenv("WHILEAI_CERTS", raising=False)
    server.default = judge(quality)
    draw = random.Random(2)
    rows = [
        {"task_id": f"t{number}", "reward": reward, "completion": f"{number}: q={draw.random():.4f}"}
        for number in range(30)
        for reward in (1, 1, 1, 0)
    ]
    path = write(model=["judge", "backup"])
    load_grader(path).check(rows)
    grading = GroupwiseGrading(load_grader(path))
    grading.group(rows[:4])
    assert "craft: the link craft[backup] is left out: it has no certificate" in caplog.text
    assert grading.stats.failures == {}
    caplog.clear()
    load_grader(path).links[1].check(rows)
    GroupwiseGrading(load_grader(path)).group(rows[4:8])
    assert "left out" not in caplog.text


def test_the_command_carries_the_models_that_were_given(roles, server, write, project):
    grader = load_grader(write(), models={"judge": "openai:gpt-x"})
    with pytest.raises(UncheckedGraderError) as refusal:
        GroupwiseGrading(grader).group(GROUP)
    assert "`whileai check craft.yaml --model judge=openai:gpt-x --rows ROWS`" in str(refusal.value)
    shipped = GroupwiseGrading(load_grader("shortest_clean_path"))
    with pytest.raises(UncheckedGraderError, match="`whileai check shortest_clean_path --rows ROWS`"):
        shipped.group(GROUP)
    (project / "my graders").mkdir()
    (project / "my graders" / "f.yaml").write_text(FEWEST)
    with pytest.raises(UncheckedGraderError, match=r"`whileai check 'my graders/f\.yaml' --rows ROWS`"):
        GroupwiseGrading(load_grader("my graders/f.yaml")).group(GROUP)


def test_accepted_without_a_check_every_link_runs_and_the_reason_stands_in_the_stats(graders):
    grading = GroupwiseGrading(load_grader("own.yaml"), accept_unchecked="a first look")
    assert all(way() for way in ways(grading).values())
    assert grading.stats.unchecked == "a first look"
    assert "unchecked: a first look" in str(grading.stats)
    unusual = [{**row, "prompt": "unusual"} for row in GROUP]
    grading.group(unusual)
    assert grading.stats.answered == {"own": 3, "fewest": 1}
    load_grader("constant.yaml").check(ROWS)
    assert GroupwiseGrading(load_grader("constant.yaml"), accept_unchecked="I know").group(GROUP)


def test_a_check_in_this_process_counts_where_no_file_can_be_written(graders, monkeypatch, caplog):
    (graders / "no_folder").write_text("")
    monkeypatch.setenv("WHILEAI_CERTS", str(graders / "no_folder" / "certs"))
    report = load_grader("fewest.yaml").check(ROWS)
    assert report.verdict == "yes"
    assert "fewest: what its check said holds in this process only" in caplog.text
    assert len(set(GroupwiseGrading(load_grader("fewest.yaml")).group(GROUP))) == 4
    load_grader("constant.yaml").check(ROWS)
    refused("constant.yaml", "its last check said no (in this process)")


def test_check_spread_of_the_object_is_the_gate_with_its_knobs(graders):
    grading = GroupwiseGrading(load_grader("fewest.yaml"), min_factor=0.7)
    assert grading.check_spread(ROWS).verdict == "yes"
    assert len(set(grading.group(GROUP))) == 4
    refused("fewest.yaml", "is stale: min_factor changed from 0.7 to 0.5")


def test_another_min_factor_makes_it_stale_and_another_cap_does_not(graders):
    load_grader("fewest.yaml").check(ROWS)
    grading = GroupwiseGrading(load_grader("fewest.yaml"))
    grading.group(GROUP)
    with pytest.raises(UncheckedGraderError, match=r"is stale: min_factor changed from 0\.5 to 0\.7"):
        dataclasses.replace(grading, min_factor=0.7).group(GROUP)
    for knobs in (
        {"cap": 1.2},
        {"concurrency": 2},
        {"deadline_s": 9.0},
        {"hack_reward": -1.0},
        {"grade_all_pass": True},
    ):
        assert len(set(dataclasses.replace(grading, **knobs).group(GROUP))) == 4


def test_it_is_decided_once_per_reward_function(graders):
    load_grader("fewest.yaml").check(ROWS)
    grading = GroupwiseGrading(load_grader("fewest.yaml"))
    reward = grading.trl_reward(verifier, 4)
    before = reward(["p"] * 4, ["x 1", "xx 2", "xxxx 3", "xxx 4"])
    (certificate,) = (graders / ".whileai" / "certs").iterdir()
    certificate.write_text(certificate.read_text().replace('"verdict": "yes"', '"verdict": "no"'))
    (graders / "fewest.yaml").write_text("no spec any more")
    assert reward(["p"] * 4, ["x 1", "xx 2", "xxxx 3", "xxx 4"]) == before
    assert grading.group(GROUP)


def test_a_later_no_voids_a_certificate_for_others(graders):
    load_grader("fewest.yaml").check(ROWS)
    (certificate,) = (graders / ".whileai" / "certs").iterdir()
    certificate.write_text(certificate.read_text().replace('"verdict": "yes"', '"verdict": "no"'))
    said = in_another_process(LOOK.replace("own.yaml", "fewest.yaml"), graders)
    assert "fewest may not train yet: its last check said no (" in said


def test_not_enough_data_leaves_nothing_and_takes_nothing_away(graders):
    few = [row for row in ROWS if row["task_id"] in ("t1", "t2")]
    grading = GroupwiseGrading(load_grader("fewest.yaml"))
    assert grading.check_spread(few, strict=False).verdict == "not enough data"
    assert not (graders / ".whileai" / "certs").exists()
    refused("fewest.yaml", "it has no certificate")
    grading.check_spread(ROWS)
    assert grading.check_spread(few, strict=False).verdict == "not enough data"
    assert len(set(grading.group(GROUP))) == 4


def test_looking_needs_no_certificate(graders):
    grading = GroupwiseGrading(load_grader("own.yaml"))
    assert len(grading.grade_rows(ROWS)) == 30


def test_a_loosened_check_is_kept_with_its_reason(graders):
    (graders / "fewest.yaml").write_text(FEWEST + "check: {min_groups: 3, min_pairs: 5, because: a small start}\n")
    few = [row for row in ROWS if int(row["task_id"][1:]) < 8]
    report = load_grader("fewest.yaml").check(few)
    assert report.verdict == "yes", str(report)
    grading = GroupwiseGrading(load_grader("fewest.yaml"))
    assert len(set(grading.group(GROUP))) == 4
    assert grading.stats.loosened == {"fewest": "a small start"}
    assert "check of fewest loosened: a small start" in str(grading.stats)


def test_a_certificate_that_is_given_is_for_its_own_link_only(graders, caplog):
    load_grader("own.yaml").check(ROWS)
    (given,) = (graders / ".whileai" / "certs").iterdir()
    kept = given.rename(graders / "kept.json")
    shaped = in_another_process(
        LOOK.replace('load_grader("own.yaml")', f'load_grader("own.yaml"), certificate={str(kept)!r}'), graders
    )
    assert shaped == "True\n"
    said = in_another_process(
        LOOK.replace('load_grader("own.yaml")', f'load_grader("constant.yaml"), certificate={str(kept)!r}'), graders
    )
    assert "constant may not train yet: it has no certificate" in said
