"""The gate on the command line: preview, report, certificate, links, and what CI asks."""

import json
import os
from pathlib import Path

import pytest

from whileai.cli.options import ROWS_HELP

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("WHILEAI_SHARED", REPOSITORY.parent / "shared"))
AIRLINE = SHARED / "data" / "airline_rollouts.jsonl"

RULES = """\
    spec: 1
    name: {name}
    kind: rules
    rank: [{{{term}}}]
    """
SHORT = "least: completion|length"
BY_PLACE = """\
    def grade(group):
        return {"ranking": [g["index"] for g in group if g["passed"]]}

    def fails(group):
        raise ValueError("no model")
    """
"""A grader that ranks by the order in which passes are shown."""


def spec(name="mine", term=SHORT, more=""):
    return RULES.format(name=name, term=term) + more


def python(name="mine", function="grade"):
    return f"spec: 1\nname: {name}\nkind: python\nfunction: ./fn.py:{function}\n"


@pytest.fixture
def rows(put_rows):
    """24 groups of four passes of different length and a failure."""
    return put_rows(
        {f"g{n}": [("x" * (1 + (n * 7 + k * 5) % 23), 1) for k in range(4)] + [("no", 0)] for n in range(24)}
    )


@pytest.fixture
def few(put_rows):
    return put_rows({f"g{n}": [("x", 1), ("xx", 1), ("no", 0)] for n in range(5)}, "few.jsonl")


def certificates(folder: Path) -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted((folder / ".whileai" / "certs").glob("*.json"))]


def test_a_good_grader_gets_a_certificate_and_its_path_is_said(run, put, folder, rows):
    put("mine.yaml", spec())
    done = run("check", "mine.yaml", "--rows", rows)
    assert done.code == 0
    assert done.err.startswith("check of mine: 48 calls for 24 of 24 groups")
    assert "check: yes. mine tells these passes apart" in done.out
    assert "validity untested: no golden cases" in done.out
    path = folder / done.lines[-1].removeprefix("certificate: ")
    assert path.parent == folder / ".whileai" / "certs"
    assert json.loads(path.read_text())["verdict"] == "yes"


def test_its_golden_cases_are_part_of_the_check(run, put, rows):
    put("mine.yaml", spec())
    put(
        "mine.golden.yaml",
        "golden: 1\ncases: [{name: a, group: [{completion: a}, {completion: bb}], ranking: [1, 0]}]\n",
    )
    done = run("check", "mine.yaml", "--rows", rows)
    assert done.code == 1
    assert "and 1 golden case\n" in done.err
    assert "0 of 1 cases hold; not: a" in done.out


def test_a_position_ranker_is_refused_and_the_refusal_is_kept(run, put, folder, rows):
    put("fn.py", BY_PLACE)
    put("mine.yaml", python())
    done = run("check", "mine.yaml", "--rows", rows)
    assert done.code == 1
    assert "check: no" in done.out
    assert "NO  retest" in done.out
    assert done.lines[-1].startswith("refusal: .whileai/certs/mine-")
    assert [found["verdict"] for found in certificates(folder)] == ["no"]


def test_calls_that_fail_are_named(run, put, rows):
    put("fn.py", BY_PLACE)
    put("mine.yaml", python(function="fails"))
    done = run("check", "mine.yaml", "--rows", rows)
    assert done.code == 1
    assert "failed: 48 of 48 calls, raised: ValueError: no model" in done.out


def test_too_little_data_is_exit_code_3_and_leaves_nothing(run, put, folder, few):
    put("mine.yaml", spec())
    done = run("check", "mine.yaml", "--rows", few)
    assert done.code == 3
    assert "check: not enough data" in done.out
    assert "15 more groups with two or more passes" in done.out
    assert not (folder / ".whileai").exists()


def test_json_is_one_document_and_the_preview_stands_beside_it(run, put, folder, rows):
    put("mine.yaml", spec())
    done = run("check", "mine.yaml", "--rows", rows, "--json")
    assert (done.code, done.json["verdict"], done.json["rows"]) == (0, "yes", 120)
    (link,) = done.json["links"]
    assert link["grader"] == "mine"
    assert {figure["name"] for figure in link["figures"]} >= {"size", "retest"}
    assert (folder / link["certificate"]).is_file()
    assert done.err.startswith("check of mine: 48 calls")


CHAIN = "fallback: [./second.yaml]\n    "


@pytest.fixture
def chain(put):
    put("mine.yaml", spec(more=CHAIN))
    put("second.yaml", spec("second", "most: completion|length"))


def test_the_first_link_is_checked_by_default_and_all_on_demand(run, chain, folder, rows):
    assert run("check", "mine.yaml", "--rows", rows).code == 0
    assert [found["grader"] for found in certificates(folder)] == ["mine"]
    done = run("check", "mine.yaml", "--rows", rows, "--link", "all")
    assert done.code == 0
    assert [line.split(":")[0] for line in done.err.splitlines()] == ["check of mine", "check of second"]
    assert sum(line.startswith("certificate: ") for line in done.lines) == 2
    assert [found["grader"] for found in certificates(folder)] == ["mine", "second"]


def test_one_link_is_checked_by_its_name(run, chain, folder, rows):
    assert run("check", "mine.yaml", "--rows", rows, "--link", "second").code == 0
    assert [found["grader"] for found in certificates(folder)] == ["second"]
    done = run("check", "mine.yaml", "--rows", rows, "--link", "secnd")
    assert done.code == 2
    assert "did you mean 'second'?" in done.err


def test_the_worst_link_decides(run, put, chain, rows):
    put("fn.py", BY_PLACE)
    put("second.yaml", python("second"))
    done = run("check", "mine.yaml", "--rows", rows, "--link", "all", "--json")
    assert (done.code, done.json["verdict"]) == (1, "no")
    assert [link["verdict"] for link in done.json["links"]] == ["yes", "no"]


def test_verify_finds_the_certificate_and_grades_nothing(run, put, folder, rows):
    put("mine.yaml", spec())
    assert run("check", "mine.yaml", "--rows", rows).code == 0
    done = run("check", "mine.yaml", "--verify")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("mine: certificate .whileai/certs/mine-")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("least", "most"), "stale: spec changed"),
        (lambda text: text + "check: {min_groups: 22}\n", "stale: check changed from defaults to min_groups=22"),
        (lambda text: text.replace("mine", "yours"), "it has no certificate"),
    ],
)
def test_verify_names_what_changed_and_the_command(run, put, folder, rows, change, said):
    path = put("mine.yaml", spec())
    assert run("check", "mine.yaml", "--rows", rows).code == 0
    path.write_text(change(path.read_text()))
    done = run("check", "mine.yaml", "--verify")
    assert done.code == 1
    assert said in done.words
    assert done.lines[-1] == "to check it again: whileai check mine.yaml --rows ROWS"


def test_a_key_that_is_not_set_is_held_against_no_judge(run, put, folder, rows, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    put("mine.yaml", "spec: 1\nname: mine\nkind: llm\nverdict: ranking\nmodel: openai:some-model\n"
        "prompt: {system: groupwise/system, user: groupwise/ranking}\n")  # fmt: skip
    put(
        "mine.golden.yaml",
        "golden: 1\ncases:\n  - {name: a, group: [{completion: a}, {completion: bb}], ranking: [0, 1]}\n",
    )
    done = run("check", "mine.yaml", "--rows", rows)
    assert done.code == 3
    assert "49 calls were not made: " in done.out
    assert "OPENAI_API_KEY is not set" in done.out
    assert not certificates(folder)
    assert run("test", "mine.yaml").code == 1, "a case that nobody was asked about does not hold"


def test_a_broken_certificate_is_said_before_the_calls_are_paid_for(run, put, folder, rows):
    put("fn.py", "def grade(group):\n    open('called', 'w').close()\n    return {}\n")
    put("mine.yaml", python())
    put(".whileai/certs/mine-0123456789ab.json", "<<<<<<< a merge")
    done = run("check", "mine.yaml", "--rows", rows)
    assert (done.code, done.out) == (2, "")
    assert done.err.rstrip().endswith("; delete it and check the grader again")
    assert not (folder / "called").exists()
    (folder / ".whileai/certs/mine-0123456789ab.json").unlink()
    assert run("check", "mine.yaml", "--rows", rows).code == 1
    assert (folder / "called").exists()


def test_verify_says_so_after_a_refusal(run, put, rows):
    put("fn.py", BY_PLACE)
    put("mine.yaml", python())
    run("check", "mine.yaml", "--rows", rows)
    done = run("check", "mine.yaml", "--verify")
    assert done.code == 1
    assert "its last check said no" in done.out


def test_verify_of_all_links_needs_all(run, chain, rows):
    run("check", "mine.yaml", "--rows", rows)
    assert run("check", "mine.yaml", "--verify").code == 0
    done = run("check", "mine.yaml", "--verify", "--link", "all", "--json")
    assert (done.code, done.json["valid"]) == (1, False)
    assert [link["status"] for link in done.json["links"]] == ["valid", "missing"]


def test_certificates_go_where_the_variable_says(run, put, folder, rows, monkeypatch):
    monkeypatch.setenv("WHILEAI_CERTS", str(folder / "kept"))
    put("mine.yaml", spec())
    assert run("check", "mine.yaml", "--rows", rows).code == 0
    assert len(list((folder / "kept").iterdir())) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mine.yaml"], "--rows is missing"),
        (["mine.yaml", "--verify", "--rows", "rows.jsonl"], "--verify grades nothing"),
        (["./fn.py:grade", "--verify"], "./fn.py:grade is a plain function"),
        (["./fn.py:grade", "--rows", "rows.jsonl", "--link", "all"], "./fn.py:grade is a plain function"),
        (["mine.yaml", "--rows", "rows.jsonl", "--mode", "reward"], "written for mode='advantage'"),
    ],
)
def test_a_call_that_contradicts_itself_is_refused(run, put, rows, arguments, said):
    put("fn.py", BY_PLACE)
    put("mine.yaml", spec())
    done = run("check", *arguments)
    assert done.code == 2
    assert said in done.err


def test_a_golden_file_with_mistakes_stops_the_check_before_any_call(run, put, folder, rows):
    put("fn.py", f"def grade(group):\n    open({str(folder / 'called')!r}, 'w')\n")
    put("mine.yaml", python())
    put("mine.golden.yaml", "golden: 1\ncases: [{name: a}]\n")
    assert run("check", "mine.yaml", "--rows", rows).code == 2
    assert not (folder / "called").exists()


def test_a_spec_in_reward_mode_is_checked_in_it(run, put, rows):
    put(
        "mine.yaml",
        "spec: 1\nname: mine\nkind: rules\nmode: reward\nsolution: '1.0'\nbehavior: 1 / (1 + completion|length)\n",
    )
    done = run("check", "mine.yaml", "--rows", rows)
    assert done.code == 0, done.out
    assert done.err.startswith("check of mine: 192 calls")


def test_real_rollouts_of_an_airline_desk_are_too_few(run):
    if not AIRLINE.exists():
        pytest.skip(f"no {AIRLINE}; set WHILEAI_SHARED to the folder that holds data/")
    done = run("check", REPOSITORY / "graders" / "shortest_clean_path.yaml", "--rows", AIRLINE)
    assert done.code == 3
    assert "?? size 15 of 20 groups with two or more passes" in done.words
    assert "5 more groups with two or more passes" in done.out
    assert "completely tied in 5 of 15 groups; it can change something in 4 of the 6 mixed ones" in done.out


def test_help_says_which_rows_are_read(run):
    assert " ".join(ROWS_HELP.split()[:3]) in run("check", "--help").words
