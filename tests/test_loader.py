import asyncio
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from whileai.core.verdict import read_verdict
from whileai.errors import BatchError, ConfigError, GraderFailure, SpecError, UnusableVerdict
from whileai.grading import GroupwiseGrading
from whileai.loader import CompiledGrader, lint, load_grader

RULES = "spec: 1\nname: mine\nkind: rules\nrank: [{least: completion.count('x')}]\n"
PYTHON = "spec: 1\nname: own\nkind: python\nfunction: ./own.py:grade\n"
GRADER = """
from dataclasses import dataclass

@dataclass
class Said:
    ranking: list

def grade(group):
    return Said([g["index"] for g in reversed(group) if g["passed"]])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text(RULES)
    (tmp_path / "own.yaml").write_text(PYTHON)
    (tmp_path / "own.py").write_text(GRADER)
    (tmp_path / "chain.yaml").write_text(
        "spec: 1\nname: chain\nkind: rules\nrank: [{least: tool_calls|length}]\nfallback: [./own.yaml, rank_group]\n"
    )
    return tmp_path


def group(*completions: str) -> list[dict]:
    return [
        {"index": i, "prompt": "p", "completion": text, "reward": 1.0, "passed": True}
        for i, text in enumerate(completions)
    ]


GROUP = group("xx", "x", "xx")


def test_a_compiled_grader_is_called_awaited_and_says_what_it_is(folder: Path):
    grader = load_grader(folder / "mine.yaml")
    assert grader(GROUP) == {"ranking": [1, [0, 2]]}
    assert asyncio.run(grader.agrade(GROUP)) == grader(GROUP)
    assert str(grader) == repr(grader) == "CompiledGrader(mine, kind=rules, mode=advantage, names no hacks)"
    assert (grader.name, grader.mode, grader.names_hacks, grader.is_async) == ("mine", "advantage", False, False)
    assert grader.path == folder / "mine.yaml"
    assert grader.spec.name == "mine"


def test_a_bare_name_is_a_shipped_grader_and_a_path_is_not(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    (folder / "rank_group").write_text("not this one")
    assert load_grader("rank_group").spec.kind == "rules"
    assert load_grader("mine.yaml").path == folder / "mine.yaml"
    for missing, said in (("mine", "no shipped file of graders"), ("./rank.yaml", "there is no file ./rank.yaml")):
        with pytest.raises(SpecError, match=said):
            load_grader(missing)


def test_what_is_no_spec_is_said_by_reading_and_by_lint(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    (folder / "deep").mkdir()
    for path in (".", "./deep", folder / "deep"):
        with pytest.raises(SpecError, match=r"is a folder \(name a file in it\)") as caught:
            load_grader(path)
        assert lint(path) == caught.value.problems
    for reading in (load_grader, lint):
        with pytest.raises(TypeError, match=r"os\.PathLike object, not NoneType"):
            reading(None)  # type: ignore[arg-type]
    for given in ("mine.yaml", Path("mine.yaml")):
        with pytest.raises(ConfigError, match=r"\(whileai.load_grader\('mine.yaml'\) makes one of a spec\)"):
            GroupwiseGrading(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [None, {"reward": 1}, "group", [{"reward": 1, "completion": "x"}], [None]])
def test_what_is_no_group_is_said_before_anything_is_called(folder: Path, given: Any):
    grader = load_grader(folder / "mine.yaml")
    with pytest.raises(BatchError, match="mine: a group is wanted, a list of rollouts with index"):
        grader(given)
    with pytest.raises(BatchError, match="mine: a group is wanted"):
        asyncio.run(grader.agrade(given))


def test_every_mistake_is_raised_at_once(folder: Path):
    (folder / "bad.yaml").write_text("spec: 3\nname: 7\nkind: rules\nrank: [{least: tunrs}]\n")
    with pytest.raises(SpecError) as caught:
        load_grader(folder / "bad.yaml")
    assert len(caught.value.problems) == 3
    assert caught.value.problems == lint(folder / "bad.yaml")


def test_a_chain_falls_back_and_each_link_stands_alone(folder: Path):
    grader = load_grader(folder / "chain.yaml")
    answer = grader(GROUP)
    assert answer["link"] == "own"
    assert list(answer["failed"]) == ["chain"]
    assert read_verdict(answer, [0, 1, 2], 3).ranking == ((2,), (1,), (0,))
    assert [link.link_name for link in grader.links] == ["chain", "own", "rank_group"]
    with pytest.raises(UnusableVerdict):
        grader.links[0](GROUP)
    assert grader.links[2](group("<tool_call>", ""))["ranking"] == [1, 0]
    assert "then own, rank_group" in str(grader)


def test_links_without_a_certificate_are_skipped_and_named(folder: Path):
    grader = load_grader(folder / "chain.yaml").only(lambda link: link.link_name != "own")
    assert grader.skipped == ("own",)
    assert grader(GROUP)["link"] == "rank_group"
    assert grader(GROUP)["skipped"] == ["own"]
    assert "skipped own" in str(grader)
    alone = load_grader(folder / "chain.yaml").only(lambda link: link.link_name == "chain")
    with pytest.raises(GraderFailure) as caught:
        alone(GROUP)
    assert (caught.value.kind, "own: skipped" in caught.value.reason) == ("no_messages", True)
    with pytest.raises(ValueError, match="no link is left; skipped: chain, own, rank_group"):
        load_grader(folder / "chain.yaml").only(lambda link: False)


def test_two_links_of_one_name_are_refused(folder: Path):
    (folder / "own.yaml").write_text(PYTHON.replace("name: own", "name: rank_group"))
    with pytest.raises(SpecError, match="two graders of one chain are called 'rank_group'"):
        load_grader(folder / "chain.yaml")


def test_a_missing_column_raises_before_anything_is_called(folder: Path):
    (folder / "own.yaml").write_text(PYTHON + "columns: [ticket]\n")
    (folder / "own.py").write_text("def grade(group):\n    raise RuntimeError('called')\n")
    with pytest.raises(UnusableVerdict, match="rollout 0 has no column ticket; it has index, prompt"):
        load_grader(folder / "own.yaml")(GROUP)


def test_groupwise_grading_takes_a_compiled_grader(folder: Path):
    rows = [{"prompt": "p", "completion": text, "reward": reward} for text, reward in (("x", 1), ("xx", 1), ("", 0))]
    grading = GroupwiseGrading(load_grader(folder / "mine.yaml"), accept_unchecked="a test of the wiring")
    shaped = grading.group(rows)
    assert shaped[0] > shaped[1] > shaped[2]
    assert "grader=mine" in str(grading)


def test_lint_runs_nothing_and_reads_nothing_outside(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A hostile spec: its function's file, its folder and its links try to be run or to lead elsewhere."""
    inside = folder / "hostile"
    inside.mkdir()
    ran = folder / "ran"
    (inside / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()\ndef grade(group): ...\n")
    (inside / "evil").mkdir()
    (inside / "evil" / "__init__.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    (inside / "sitecustomize.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    (inside / "out.j2").symlink_to(folder / "own.py")
    (inside / "conftest.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    monkeypatch.chdir(inside)
    monkeypatch.syspath_prepend(str(inside))
    read: list[str] = []
    listening = [True]  # an audit hook stays for the life of the process
    sys.addaudithook(lambda event, args: read.append(str(args[0])) if listening and event == "open" else None)
    specs = {
        "function.yaml": PYTHON.replace("./own.py", "./evil.py"),
        "module.yaml": PYTHON.replace("./own.py", "evil"),
        "tag.yaml": RULES + f"x: !!python/object/apply:os.system ['touch {ran}']\n",
        "template.yaml": "spec: 1\nname: a\nkind: llm\nverdict: ranking\nmodel: judge\nprompt: {user: ./out.j2}\n",
        "outside.yaml": PYTHON.replace("./own.py", "./../own.py"),
        "power.yaml": RULES.replace("completion.count('x')", "10 ** (10 ** 7)"),
        "repeat.yaml": RULES.replace("completion.count('x')", "('a' * 100000000)|length"),
        "reach.yaml": RULES.replace("completion.count('x')", "completion.__class__.__mro__|length"),
    }
    for name, text in specs.items():
        (inside / name).write_text(text)
        read.clear()
        lint(name)
        opened = [Path(path).resolve() for path in read if str(path).startswith((str(folder), "./", "."))]
        assert all(path.is_relative_to(inside) for path in opened), name
        assert any(path.name == name for path in opened)
    listening.clear()
    assert not ran.exists()
    assert lint("template.yaml")[0].message.endswith("leads out of the folder of the spec")
    with pytest.raises(UnusableVerdict):
        load_grader("power.yaml")(GROUP)
    with pytest.raises(UnusableVerdict):
        load_grader("repeat.yaml")(GROUP)
    with pytest.raises(UnusableVerdict):
        load_grader("reach.yaml")(GROUP)


def test_windows_line_endings_change_nothing(folder: Path):
    before = load_grader(folder / "own.yaml")
    parts = before.fingerprint_parts()
    for name in ("own.yaml", "own.py", "mine.yaml"):
        (folder / name).write_bytes((folder / name).read_bytes().replace(b"\n", b"\r\n"))
    after = load_grader(folder / "own.yaml")
    assert after.fingerprint_parts() == parts
    assert after(GROUP).ranking == before(GROUP).ranking
    assert lint(folder / "mine.yaml") == []


def test_a_copy_elsewhere_has_the_same_fingerprint(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    other = tmp_path_factory.mktemp("elsewhere") / "deeper"
    other.mkdir()
    for name in ("own.yaml", "own.py"):
        (other / name).write_bytes((folder / name).read_bytes())
    parts = load_grader(folder / "own.yaml").fingerprint_parts()
    assert load_grader(other / "own.yaml").fingerprint_parts() == parts
    assert set(parts) == {"spec", "function"}


@pytest.mark.parametrize("name", ["mine.yaml", "own.yaml", "chain.yaml"])
def test_it_pickles_with_its_files(folder: Path, name: str):
    grader = load_grader(folder / name)
    said, parts = grader(GROUP), grader.fingerprint_parts()
    data = pickle.dumps(grader)
    for file in folder.iterdir():
        file.unlink()
    again = pickle.loads(data)
    assert isinstance(again, CompiledGrader)
    assert str(again) == str(grader)
    assert again(GROUP) == said
    assert again.fingerprint_parts() == parts
    assert pickle.loads(pickle.dumps(again))(GROUP) == said


def test_a_link_and_a_shortened_chain_pickle_as_what_they_are(folder: Path):
    grader = load_grader(folder / "chain.yaml")
    alone = pickle.loads(pickle.dumps(grader.links[1]))
    assert (str(alone), len(alone.links)) == (str(grader.links[1]), 1)
    shortened = pickle.loads(pickle.dumps(grader.only(lambda link: link.link_name != "own")))
    assert shortened.skipped == ("own",)
    assert [link.link_name for link in shortened.links] == ["chain", "rank_group"]
    assert shortened(GROUP)["skipped"] == ["own"]


def test_it_pickles_into_another_process(folder: Path, tmp_path_factory: pytest.TempPathFactory):
    grader = load_grader(folder / "own.yaml")
    pickled = tmp_path_factory.mktemp("pickles") / "grader.pickle"
    pickled.write_bytes(pickle.dumps(grader))
    (folder / "own.py").unlink()
    program = """
        import pickle, sys
        grader = pickle.load(open(sys.argv[1], "rb"))
        group = [{"index": i, "prompt": "", "completion": "", "reward": 1.0, "passed": True} for i in range(3)]
        print(grader(group).ranking, grader.fingerprint_parts() == eval(sys.argv[2]))
    """
    parts = repr(grader.fingerprint_parts())
    path = os.pathsep.join([str(Path(__file__).resolve().parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(pickled), parts],
        capture_output=True, text=True, check=True, cwd=pickled.parent, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.stdout == "[2, 1, 0] True\n"


def _in_child(grader: CompiledGrader, queue: multiprocessing.Queue) -> None:
    queue.put((grader(GROUP), asyncio.run(grader.agrade(GROUP))))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_it_survives_a_fork(folder: Path):
    (folder / "own.py").write_text("async def grade(group):\n    return {'ranking': [2, 0, 1]}\n")
    grader = load_grader(folder / "chain.yaml")
    here = grader(GROUP)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(grader, queue))
    child.start()
    assert queue.get(timeout=60) == (here, here)
    child.join(60)
    assert child.exitcode == 0


def test_roles_are_not_needed_to_lint_a_judge(folder: Path):
    (folder / "judge.yaml").write_text(
        "spec: 1\nname: j\nkind: llm\nverdict: ranking\nmodel: nobody_defined_this\nprompt: {user: groupwise/ranking}\n"
    )
    assert lint(folder / "judge.yaml") == []
