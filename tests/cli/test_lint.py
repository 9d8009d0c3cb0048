import json

import pytest

SPEC = """\
    spec: 1
    name: {name}
    kind: rules
    rank: [{{least: completion|length}}]
    """
PYTHON = """\
    spec: 1
    name: fn
    kind: python
    function: ./fn.py:grade
    """
GOLDEN = """\
    golden: 1
    cases:
      - name: short
        group: [{completion: a}, {completion: bb}]
        ranking: [0, 1]
    """


def test_every_problem_of_every_file_is_one_line_with_its_place(run, put):
    put("g/one.yaml", SPEC.format(name="one") + "colour: red\n    ranc: 1\n    ")
    put("g/deep/two.yaml", SPEC.format(name="two").replace("rules", "rulez"))
    put("g/two.golden.yaml", GOLDEN.replace("[0, 1]", "[0, 7]"))
    put("g/fine.yaml", SPEC.format(name="fine"))
    done = run("lint", "g")
    assert done.code == 1
    *problems, summary = done.lines
    assert [line.split(": ")[:2] for line in problems] == [
        ["g/one.yaml:5", "colour"],
        ["g/one.yaml:6", "ranc"],
        ["g/deep/two.yaml:3", "kind"],
        ["g/two.golden.yaml:5", "cases[0].ranking"],
    ]
    assert problems[1] == "g/one.yaml:6: ranc: unknown key (did you mean 'rank'?)"
    assert summary == "4 problems in 3 files (3 specs, 1 golden file)"


@pytest.mark.parametrize(
    ("named", "folder_of"), [("g", "g"), ("g/a.yaml", "g"), ("g/a.golden.yaml", "g"), ("g/../g/a.yaml", "g/../g")]
)
def test_a_mistake_in_golden_cases_beside_their_spec_is_said_once(run, put, named, folder_of):
    put("g/a.yaml", SPEC.format(name="a"))
    put("g/a.golden.yaml", GOLDEN.replace("[0, 1]", "[0, 7]"))
    done = run("lint", named)
    problem, summary = done.lines
    assert problem.split(": ")[:2] == [f"{folder_of}/a.golden.yaml:5", "cases[0].ranking"]
    assert summary.startswith("1 problem in 1 file (")
    assert "1 golden file" in summary


def test_without_problems_it_says_what_it_looked_at(run, put):
    put("a.yaml", SPEC.format(name="a"))
    put("a.golden.yaml", GOLDEN)
    done = run("lint", ".")
    assert (done.code, done.out) == (0, "no problems: 1 spec, 1 golden file\n")


def test_json_lists_files_and_problems(run, put):
    put("a.yaml", SPEC.format(name="a") + "colour: red\n    ")
    put("compose.yaml", "services: {web: {image: x}}\n")
    done = run("lint", ".", "--json")
    assert done.code == 1
    assert done.json == {
        "specs": ["a.yaml"],
        "golden": [],
        "others": ["compose.yaml"],
        "problems": [
            {
                "file": "a.yaml",
                "line": 5,
                "key": "colour",
                "message": "unknown key",
                "remedy": done.json["problems"][0]["remedy"],
            }
        ],
    }


def test_nothing_of_a_spec_is_executed(run, put, folder):
    put("fn.py", f"open({str(folder / 'ran')!r}, 'w')\n\ndef grade(group):\n    return {{}}\n")
    put("fn.yaml", PYTHON)
    assert run("lint", "fn.yaml").code == 0
    assert not (folder / "ran").exists()
    assert run("test", "fn.yaml").code == 2, "no golden cases"
    put("fn.golden.yaml", GOLDEN)
    run("test", "fn.yaml")
    assert (folder / "ran").exists(), "the file would have been noticed"


def test_a_mistake_that_two_specs_share_is_said_once(run, put):
    put("broken.yaml", SPEC.format(name="broken") + "colour: red\n    ")
    for name in ("a", "b"):
        put(f"{name}.yaml", SPEC.format(name=name) + "fallback: [./broken.yaml]\n    ")
    done = run("lint", "a.yaml", "b.yaml", "broken.yaml")
    assert done.code == 1
    assert sum("colour" in line for line in done.lines) == 1


def test_a_spec_by_another_suffix_is_a_problem(run, put):
    put("a.yml", SPEC.format(name="a"))
    done = run("lint", ".")
    assert done.code == 1
    assert done.lines[0] == "a.yml: the name of a spec ends in .yaml (call it a.yaml)"


def test_a_hostile_text_drives_no_terminal(run, put):
    put("a.yaml", SPEC.format(name="a") + '"col\\u001b[31mour": [bold]\n    ')
    done = run("lint", "a.yaml")
    assert done.code == 1
    assert "\x1b" not in done.out
    assert json.dumps(done.lines[0]).count("x1b") == 1


@pytest.mark.parametrize("name", ["nowhere", "nowhere.yaml"])
def test_a_path_that_is_not_there_is_exit_code_2(run, name):
    done = run("lint", name)
    assert done.code == 2
    assert done.err.startswith(f"error: {name}: there is no such file or folder")
