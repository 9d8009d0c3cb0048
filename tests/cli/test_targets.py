import pytest

from whileai.cli.targets import grading_of, load_target, spec_of
from whileai.errors import ConfigError, SpecError
from whileai.loader import CompiledGrader

SPEC = "spec: 1\nname: mine\nkind: rules\nrank: [{least: completion|length}]\n"
REWARD = "spec: 1\nname: mine\nkind: rules\nmode: reward\nsolution: '1.0'\nbehavior: '0.5'\n"


@pytest.mark.parametrize("target", ["g/mine.yaml", "./g/mine.yaml", "rank_group"])
def test_specs_and_shipped_names_are_compiled(put, target):
    put("g/mine.yaml", SPEC)
    assert isinstance(load_target(target), CompiledGrader)


@pytest.mark.parametrize("target", ["graders.py:rank", "./graders.py:rank", "json:loads"])
def test_functions_are_the_functions_themselves(folder, target):
    assert load_target(target).__name__ == target.rpartition(":")[2]


def test_a_file_of_ones_own_is_not_shadowed_by_a_shipped_name(put):
    put("rank_group.yaml", SPEC)
    put("rank_group/other.yaml", SPEC)
    assert load_target("rank_group.yaml").name == "mine"
    assert load_target("rank_group").name == "rank_group"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("rank_groop", "did you mean 'rank_group'?"),
        ("g/mine", "g/mine: is no grader (did you mean g/mine.yaml?)"),
        ("g/mine.golden.yaml", "these are golden cases: name the spec, g/mine.yaml"),
        ("g", "this is a folder: name one spec in it"),
        ("g/nine.yaml", "did you mean 'mine.yaml'?"),
        ("graders.py", "did you mean graders.py:"),
        ("graders.py:rnak", "did you mean graders.py:rank?"),
        ("graders.py:", "names no function"),
        ("", "'': is no grader (name a spec, a shipped grader, or ./file.py:function)"),
    ],
)
def test_what_names_no_grader_is_refused_with_what_to_write(put, target, said):
    put("g/mine.yaml", SPEC)
    put("g/mine.golden.yaml", "golden: 1\n")
    with pytest.raises(SpecError) as refused:
        load_target(target)
    assert said in str(refused.value)


def test_the_mode_is_the_given_one_or_the_graders_own(put):
    put("mine.yaml", REWARD)
    assert grading_of("mine.yaml", None).mode == "reward"
    assert grading_of("rank_group", None).mode == "advantage"
    assert grading_of("graders.py:score", "reward").mode == "reward"
    with pytest.raises(ConfigError, match="written for mode='reward'"):
        grading_of("mine.yaml", "advantage")


def test_the_spec_of_golden_cases_stands_beside_them(empty):
    assert spec_of(empty / "a.golden.yaml") == empty / "a.yaml"
