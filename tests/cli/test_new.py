import ast

import pytest
import yaml

from whileai.cli.beginnings import KINDS, files_of
from whileai.cli.new import ROLES
from whileai.spec.library import library_folder

SCRIPTED = ("rules", "python")


def recorded(kind):
    """The options with which a kind's models are replayed."""
    return [word for role in ROLES.get(kind, ()) for word in ("--model", f"{role}=recorded:")]


@pytest.mark.parametrize("kind", KINDS)
def test_what_it_writes_lints_tests_and_runs_at_once(run, empty, shipped_rows, kind):
    done = run("new", "fresh", "--kind", kind, "--into", "graders/mine")
    assert done.code == 0
    linted = run("lint", "graders")
    assert (linted.code, linted.out) == (0, "no problems: 1 spec, 1 golden file\n")
    tested = run("test", "graders", *recorded(kind))
    assert tested.code == 0
    assert tested.lines[-1] == ("5 cases hold" if kind == "llm" else "3 cases hold")
    if kind not in SCRIPTED:
        return
    checked = run("check", "graders/mine/fresh.yaml", "--rows", shipped_rows)
    assert (checked.code, checked.lines[-1][:12]) == (0, "certificate:")


@pytest.mark.parametrize("kind", KINDS)
def test_it_says_what_it_wrote_and_what_comes_next(run, empty, kind):
    done = run("new", "fresh", "--kind", kind)
    written = [line.removeprefix("wrote ") for line in done.lines if line.startswith("wrote ")]
    assert sorted(written) == sorted(path.name for path in empty.iterdir())
    for command in ("lint", "test", "explain", "check", *(() if kind in SCRIPTED else ("render",))):
        assert sum(f"whileai {command} fresh.yaml" in line for line in done.lines) == 1


def test_the_commands_that_it_names_run(run, empty, shipped_rows):
    done = run("new", "fresh", "--into", "g")
    commands = [line.split("  ")[1] for line in done.lines if line.startswith("  whileai ")]
    assert len(commands) == 4
    for command in commands:
        arguments = command.replace("ROWS", str(shipped_rows)).split()[1:]
        assert run(*arguments).code == 0, command


@pytest.mark.parametrize("kind", ["llm", "panel"])
def test_what_it_says_of_a_judge_runs_without_a_model(run, empty, shipped_rows, kind):
    done = run("new", "fresh", "--kind", kind)
    commands = [" ".join(line.split("  ")[1].split()) for line in done.lines if line.startswith("  whileai ")]
    offline = [command for command in commands if command.split()[1] in ("lint", "test", "render")]
    assert len(offline) == 3
    for command in offline:
        arguments = command.replace("ROWS", str(shipped_rows)).split()[1:]
        assert run(*arguments, *(recorded(kind) if "render" in command else ())).code == 0, command
    assert sum(line.startswith("  export WHILEAI_MODEL_") for line in done.lines) == len(ROLES[kind])


def test_a_new_judge_is_the_shipped_one_until_it_is_changed(empty):
    """Its recorded replies are found by the exact request."""
    spec = yaml.safe_load(files_of("llm", "fresh")[".yaml"])
    shipped = yaml.safe_load((library_folder("graders") / "agent_craft.yaml").read_text())
    assert spec.pop("name") == "fresh" and shipped.pop("name") == "agent_craft"
    assert (spec.pop("model"), shipped.pop("model")) == ("judge", ["judge", "judge_backup"])
    assert spec == shipped


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", [".yaml", ".golden.yaml", ".py", ".recorded.jsonl"])
def test_it_overwrites_nothing_and_then_writes_nothing(run, put, empty, kind, suffix):
    put(f"fresh{suffix}", "mine\n")
    done = run("new", "fresh", "--kind", kind)
    if suffix not in files_of(kind, "fresh"):
        assert done.code == 0
        return
    assert done.code == 2
    assert f"fresh{suffix}: already there" in done.err
    assert [path.name for path in empty.iterdir()] == [f"fresh{suffix}"]
    assert (empty / f"fresh{suffix}").read_text() == "mine\n"


def test_a_dangling_link_is_not_written_through(run, empty):
    (empty / "fresh.yaml").symlink_to(empty / "elsewhere" / "x.yaml")
    assert run("new", "fresh").code == 2
    assert not (empty / "elsewhere").exists()


@pytest.mark.parametrize("name", ["class", "my-grader", "grade", "x1", "None", "NAME"])
@pytest.mark.parametrize("kind", KINDS)
def test_any_name_that_a_spec_allows_makes_a_spec_that_works(run, empty, kind, name):
    assert run("new", name, "--kind", kind).code == 0
    assert yaml.safe_load((empty / f"{name}.yaml").read_text())["name"] == name
    assert run("test", ".", *recorded(kind)).code == 0


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("mine.yaml", "write whileai new mine)"),
        ("graders/mine", "write whileai new mine --into graders)"),
        ("../up/mine.yaml", "write whileai new mine --into ../up)"),
        ("1st", "letters, digits, _ and -, a letter first"),
        ("a b", "letters, digits, _ and -, a letter first"),
        ("", "letters, digits, _ and -, a letter first"),
    ],
)
def test_what_is_no_name_is_refused_with_what_to_write(run, empty, name, remedy):
    done = run("new", name)
    assert done.code == 2
    assert remedy in done.err
    assert list(empty.iterdir()) == []


def test_an_unknown_kind_is_refused_with_the_nearest(run, empty):
    done = run("new", "fresh", "--kind", "rule")
    assert done.code == 2
    assert "did you mean 'rules'?" in done.err
    assert list(empty.iterdir()) == []


def test_the_function_is_plain_python_of_any_supported_version():
    ast.parse(files_of("python", "fresh")[".py"], feature_version=(3, 11))
