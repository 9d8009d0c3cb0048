import pytest

from whileai.errors import SpecError
from whileai.spec.reading import MAX_REFERENCES, SpecReader, read_schema
from whileai.spec.sources import Sources
from whileai.spec.validation import Mistake

RULES = "spec: 1\nname: {name}\nkind: rules\nrank: [{{least: turns}}]\n"


@pytest.fixture
def reader():
    return SpecReader(Sources(), prompt_names=lambda: ("task",), schema_problems=lambda verdict, own: ())


def write(folder, name: str, *, fallback: str = "", mode: str = "") -> None:
    lines = (f"fallback: [{fallback}]\n" if fallback else "") + (f"mode: {mode}\n" if mode else "")
    (folder / f"{name}.yaml").write_text(RULES.format(name=name) + lines)


def test_a_spec_is_read_once_however_often_it_is_referred_to(tmp_path, reader):
    write(tmp_path, "a", fallback="./b.yaml, ./c.yaml")
    write(tmp_path, "b", fallback="./c.yaml")
    write(tmp_path, "c")
    first = reader.read(tmp_path / "a.yaml")
    assert reader.referenced("./b.yaml", first.source) is reader.referenced("./b.yaml", first.source)
    assert sorted(key.rsplit("/", 1)[-1] for key in reader.sources.kept) == ["a.yaml", "b.yaml", "c.yaml"]


def test_a_circle_is_named(tmp_path, reader):
    write(tmp_path, "a", fallback="./b.yaml")
    write(tmp_path, "b", fallback="./a.yaml")
    with pytest.raises(SpecError, match=r"in a circle: a.yaml -> b.yaml -> a.yaml"):
        reader.read(tmp_path / "a.yaml")


def test_a_long_row_of_references_ends(tmp_path, reader):
    for number in range(200):
        write(tmp_path, f"x{number}", fallback=f"./x{number + 1}.yaml")
    with pytest.raises(SpecError, match=f"reached through {MAX_REFERENCES} graders"):
        reader.read(tmp_path / "x0.yaml")


def test_a_fallback_is_of_the_specs_own_mode(tmp_path, reader):
    write(tmp_path, "a", fallback="./b.yaml")
    (tmp_path / "b.yaml").write_text("spec: 1\nname: b\nkind: rules\nmode: reward\nsolution: '1'\nbehavior: '1'\n")
    with pytest.raises(SpecError, match="b is written for mode: reward"):
        reader.read(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "a": 2}', "key 'a' stands twice in one object"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": -Infinity}', "-Infinity is no JSON"),
        ("{a: 1}", "is no JSON"),
        ("[" * 100_000, "is nested too deeply"),
    ],
)
def test_an_own_schema_is_read_strictly(tmp_path, text, said):
    (tmp_path / "x.yaml").write_text("")
    (tmp_path / "own.json").write_text(text)
    sources = Sources()
    with pytest.raises(Mistake) as caught:
        read_schema("./own.json", sources.file(tmp_path / "x.yaml"), sources)
    assert said in caught.value.problems[0].message
