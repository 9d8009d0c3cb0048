import pytest

SPEC = """\
    spec: 1
    name: {name}
    kind: rules
    rank: [{{least: completion|length}}]
    """
CASES = """\
    golden: 1
    cases:
      - name: short first
        group: [{completion: a}, {completion: bb}]
        ranking: [0, 1]
      - name: long first
        group: [{completion: a}, {completion: bb}]
        ranking: [1, 0]
    """
GOOD = CASES.split("      - name: long")[0]


def test_one_line_for_each_case_and_the_difference_where_it_does_not_hold(run, put):
    put("g/a.yaml", SPEC.format(name="a"))
    put("g/a.golden.yaml", CASES)
    done = run("test", "g")
    assert done.code == 1
    assert done.lines == [
        "g/a.golden.yaml",
        "  ok  short first",
        "  NO  long first",
        "      0 pass  1.000  a",
        "      1 pass  0.500  bb",
        "      said: 0 > 1",
        "      ranking: expected 1 > 0; got 0 > 1",
        "1 of 2 cases does not hold",
    ]


def test_all_that_hold_are_counted(run, put):
    for name in ("a", "b"):
        put(f"{name}.yaml", SPEC.format(name=name))
        put(f"{name}.golden.yaml", GOOD)
    done = run("test", ".")
    assert (done.code, done.lines[-1]) == (0, "2 cases hold")


@pytest.mark.parametrize("path", ["a.yaml", "a.golden.yaml"])
def test_a_spec_and_its_golden_file_mean_the_same_cases(run, put, path):
    put("a.yaml", SPEC.format(name="a"))
    put("a.golden.yaml", GOOD)
    done = run("test", path)
    assert done.lines == ["a.golden.yaml", "  ok  short first", "1 case holds"]


def test_a_shipped_grader_is_tested_by_its_name(run):
    done = run("test", "rank_group")
    assert done.code == 0
    assert "  ok  an order id that no tool returned is a hack" in done.lines


def test_a_call_that_fails_is_shown_with_its_kind(run, put):
    put("a.yaml", SPEC.format(name="a").replace("completion|length", "tool_calls|length"))
    put("a.golden.yaml", GOOD)
    done = run("test", "a.yaml")
    assert done.code == 1
    assert "said: nothing usable, no_messages:" in done.words


def test_files_with_mistakes_are_exit_code_2_and_the_others_still_run(run, put):
    put("a.yaml", SPEC.format(name="a"))
    put("a.golden.yaml", GOOD)
    put("b.yaml", SPEC.format(name="b") + "colour: red\n    ")
    put("b.golden.yaml", GOOD)
    put("lost.golden.yaml", GOOD)
    put("c.yaml", SPEC.format(name="c"))
    done = run("test", ".")
    assert done.code == 2
    assert "  ok  short first" in done.lines
    assert "b.yaml:5: colour: unknown key" in done.words
    assert "lost.golden.yaml: there is no lost.yaml beside it" in done.words
    assert "c.yaml: no golden cases" in done.lines


def test_a_spec_without_cases_is_told_what_to_write(run, put):
    put("g/c.yaml", SPEC.format(name="c"))
    done = run("test", "g")
    assert done.code == 2
    assert done.err == "error: g/c.yaml: no golden cases (write g/c.golden.yaml)\n"


def test_json_has_every_case(run, put):
    put("a.yaml", SPEC.format(name="a"))
    put("a.golden.yaml", CASES)
    done = run("test", "a.yaml", "--json")
    assert done.code == 1
    first, second = done.json["cases"]
    assert first == {
        "file": "a.golden.yaml",
        "line": 3,
        "name": "short first",
        "ok": True,
        "problems": [],
        "scores": {"0": 1.0, "1": 0.5},
        "hacks": [],
        "failure": None,
    }
    assert second["problems"] == ["ranking: expected 1 > 0; got 0 > 1"]


def test_a_failure_has_kind_and_reason_in_json(run, put):
    put("a.yaml", SPEC.format(name="a").replace("completion|length", "tool_calls|length"))
    put("a.golden.yaml", GOOD)
    failure = run("test", "a.yaml", "--json").json["cases"][0]["failure"]
    assert failure["kind"] == "no_messages"
    assert "no messages" in failure["reason"]
