import pytest

from whileai.judging.prompt import TEMPLATE_NAMES
from whileai.spec.fingerprint import digest, spec_parts
from whileai.spec.reading import SpecReader
from whileai.spec.sources import Sources

RULES = "spec: 1\nname: mine\nkind: rules\nrank: [{least: turns}]\n"
LLM = (
    "spec: 1\nname: mine\nkind: llm\nverdict: ranking\nmodel: judge\n"
    "prompt: {system: groupwise/system, user: ./ask.j2}\nvars: {criteria: [approach]}\n"
)


@pytest.fixture
def parts(tmp_path):
    def of(text: str, **files: str) -> dict[str, str]:
        for name, content in {"ask.j2": "{{ task }}", **files}.items():
            (tmp_path / name).write_bytes(content.encode())
        (tmp_path / "x.yaml").write_bytes(text.encode())
        sources = Sources()
        reader = SpecReader(sources, prompt_names=lambda: TEMPLATE_NAMES, schema_problems=lambda verdict, own: ())
        return spec_parts(reader.read(tmp_path / "x.yaml"), sources)

    return of


@pytest.mark.parametrize(
    "change",
    [
        ("rank: [", "# a comment\nrank:   ["),
        ("\n", "\r\n"),
        ("name: mine", "name: other"),
        ("kind: rules\n", "kind: rules\ncheck: {min_groups: 40}\n"),
        ("kind: rules\n", "kind: rules\nfallback: [rank_group]\n"),
        ("kind: rules\n", "mode: advantage\nkind: rules\n"),
    ],
)
def test_what_decides_no_verdict_changes_nothing(parts, change):
    assert parts(RULES.replace(*change)) == parts(RULES)


@pytest.mark.parametrize(
    "change", [("least", "most"), ("turns", "turns + 1"), ("kind: rules\n", "kind: rules\ncolumns: [x]\n")]
)
def test_what_decides_a_verdict_changes_the_spec_part(parts, change):
    assert parts(RULES.replace(*change)) != parts(RULES)


def test_each_part_of_a_judge_changes_by_itself(parts):
    before = parts(LLM)
    assert set(before) == {"spec", "templates", "schemas", "transcript"}

    def changed(text: str, **files: str) -> set[str]:
        after = parts(text, **files)
        return {name for name in after if after[name] != before.get(name)}

    assert changed(LLM, **{"ask.j2": "{{ task }}!"}) == {"templates"}
    assert changed(LLM.replace("groupwise/system", "groupwise/data")) == {"templates"}
    assert changed(LLM.replace("approach", "precision")) == {"spec"}
    assert changed(LLM + "orders: 2\n") == {"spec"}
    assert changed(LLM + "transcript: {max_chars_per_rollout: 100}\n") == {"transcript"}
    assert changed(LLM + "schema: ./own.json\n", **{"own.json": '{"type": "object", "properties": {}}'}) == {"schemas"}
    assert changed(LLM + "retry: {attempts: 9}\ntimeouts: {group_s: 900}\nbudget: {calls: 3}\n") == set()
    assert changed(LLM.replace("model: judge", "model: other")) == set()  # the model has a part of its own


def test_renaming_a_template_changes_nothing(parts):
    assert parts(LLM.replace("ask.j2", "question.j2"), **{"question.j2": "{{ task }}"}) == parts(LLM)


def test_a_digest_does_not_depend_on_the_order_of_keys():
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1}) != digest({"a": 1, "b": [3]})
