"""What an author reads for each mistake: forty broken specs and the messages for them.

The messages stand in `tests/data/broken_specs.txt`. After a change of wording, `python tests/spec/test_broken_specs.py`
writes that file anew; read the difference before it is committed.
"""

import tempfile
from pathlib import Path

import pytest

from whileai.loader import lint

SNAPSHOT = Path(__file__).resolve().parents[1] / "data" / "broken_specs.txt"

RULES = "spec: 1\nname: mine\nkind: rules\n"
PYTHON = "spec: 1\nname: mine\nkind: python\n"
LLM = "spec: 1\nname: mine\nkind: llm\nverdict: ranking\nmodel: judge\n"
PROMPT = "prompt: {user: ./ask.j2}\n"
ASK = {"ask.j2": "{{ task }}{{ rollouts }}"}
GOOD = RULES + "rank: [{least: turns}]\n"

CASES = {
    "unknown key": (GOOD + "hack: []\n", {}),
    "unknown key inside": (RULES + "rank: [{lesat: turns}]\n", {}),
    "wrong indentation": ("spec: 1\n name: mine\n", {}),
    "tab": ("spec: 1\nname: mine\nkind: rules\nrank:\n\t- {least: turns}\n", {}),
    "unquoted braces": (RULES + "rank: [{least: {{ turns }}}]\n", {}),
    "unquoted braces in text": (LLM + "prompt: {user: ./{{ name }}.j2: x}\n", {}),
    "braces in an expression": (RULES + "rank: [{least: '{{ turns }}'}]\n", {}),
    "duplicate key": (GOOD + "name: other\n", {}),
    "yes for a boolean": (GOOD + "mode: yes\n", {}),
    "off in a list": (GOOD + "columns: [off, ticket]\n", {}),
    "a number in base 60": (GOOD.replace("mine", "1:30"), {}),
    "an octal number": (LLM + PROMPT + "orders: 010\n", ASK),
    "alias bomb": (
        "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)),
        {},
    ),
    "alias of itself": (RULES + "rank: &a [*a]\n", {}),
    "merge key": ("<<: {spec: 1}\nname: mine\nkind: rules\nhacks: []\n", {}),
    "python tag": (RULES + "rank: !!python/object/apply:os.system ['true']\n", {}),
    "empty file": ("", {}),
    "only a comment": ("# spec: 1\n", {}),
    "a list at the root": ("- spec: 1\n", {}),
    "two documents": (GOOD + "---\n" + GOOD, {}),
    "not UTF-8": (b"spec: 1\nname: caf\xe9\n", {}),
    "no kind": ("spec: 1\nname: mine\n", {}),
    "unknown kind": ("spec: 1\nname: mine\nkind: rule\n", {}),
    "version 2": (GOOD.replace("spec: 1", "spec: 2"), {}),
    "unknown variable": (RULES + "rank: [{least: toolcalls|length}]\n", {}),
    "unknown filter": (RULES + "rank: [{least: tool_calls|lenght}]\n", {}),
    "unknown test": (RULES + "hacks: [{name: empty, if: completion is emtpy}]\n", {}),
    "unknown method": (RULES + "rank: [{most: completion.cuont('x')}]\n", {}),
    "no expression": (RULES + "rank: [{least: 'completion.count('}]\n", {}),
    "a boolean for an expression": (RULES + "hacks: [{name: all, if: true}]\n", {}),
    "least and most": (RULES + "rank: [{least: turns, most: turns}]\n", {}),
    "nothing to grade by": (RULES, {}),
    "scores in the wrong mode": (GOOD + "solution: '1'\n", {}),
    "a column that every rollout has": (GOOD + "columns: [reward]\n", {}),
    "missing function file": (PYTHON + "function: ./garder.py:grade\n", {"grader.py": "def grade(group): ..."}),
    "missing function": (PYTHON + "function: ./grader.py:grad\n", {"grader.py": "def grade(group): ..."}),
    "wrong arity": (
        PYTHON + "function: ./grader.py:grade\n",
        {"grader.py": "x = 1\n\ndef grade(group, rubric): ...\n"},
    ),
    "syntax error in the function's file": (
        PYTHON + "function: ./grader.py:grade\n",
        {"grader.py": "import os\n\ndef grade(group)\n    return {}\n"},
    ),
    "function outside the folder": (PYTHON + "function: ./../grader.py:grade\n", {}),
    "no function": (PYTHON + "function: grader.py\n", {}),
    "missing fallback": (GOOD + "fallback: [rank_grup]\n", {}),
    "fallbacks in a circle": (GOOD + "fallback: [./spec.yaml]\n", {}),
    "a broken fallback": (GOOD + "fallback: [./other.yaml]\n", {"other.yaml": GOOD + "modes: reward\n"}),
    "loosened check without a reason": (GOOD + "check: {min_groups: 5, max_failures: 0.3}\n", {}),
    "not a number": (LLM + PROMPT + "budget: {usd: .nan}\n", ASK),
    "negative numbers": (LLM + PROMPT + "retry: {repairs: -1}\nbudget: {calls: -5, usd: -0.5}\n", ASK),
    "inner timeout above the outer": (LLM + PROMPT + "timeouts: {request_s: 60, group_s: 30}\n", ASK),
    "verdict for another mode": (LLM.replace("ranking", "scores") + PROMPT + "mode: advantage\n", ASK),
    "missing template": (LLM + "prompt: {user: ./aks.j2}\n", ASK),
    "missing shipped template": (LLM + "prompt: {user: groupwise/rankings}\n", {}),
    "variable of a template": (LLM + PROMPT, {"ask.j2": "{{ task }}\n{{ rolouts }}\n"}),
    "variable of an included template": (
        LLM + PROMPT,
        {"ask.j2": "{{ task }}{% include './part.j2' %}", "part.j2": "\n\n{{ criterai }}"},
    ),
    "filter of a template": (LLM + PROMPT, {"ask.j2": "{{ task|uper }}"}),
    "template that is none": (LLM + PROMPT, {"ask.j2": "a\n{% for x in rollouts %}\n"}),
    "schema that is no JSON": (LLM + PROMPT + "schema: ./reply.json\n", {**ASK, "reply.json": '{"type": "object",\n}'}),
    "schema that redefines": (
        LLM + PROMPT + "schema: ./reply.json\n",
        {**ASK, "reply.json": '{"type": "object", "properties": {"ranking": {"type": "string"}}}'},
    ),
    "quorum above the members": (
        "spec: 1\nname: p\nkind: panel\nmembers: [rank_group, redundant_calls]\nquorum: 3\n",
        {},
    ),
    "golden case for another group size": (
        GOOD,
        {
            "spec.golden.yaml": "golden: 1\ncases:\n  - name: three of two\n"
            "    group: [{completion: a}, {completion: b}]\n    ranking: [0, 1, 2]\n"
        },
    ),
    "many at once": (
        "spec: 1\nname: two words\nkind: rules\nmdoe: reward\nrank:\n  - {least: trns}\n  - {most: 3}\n"
        "columns: ticket\ncheck: {min_retest: 2}\n",
        {},
    ),
}


def messages(name: str, folder: Path) -> str:
    """The messages for one case, as lines, with the names of files as an author in that folder sees them."""
    text, files = CASES[name]
    spec = folder / "spec.yaml"
    spec.write_bytes(text if isinstance(text, bytes) else text.encode())
    for file, content in files.items():
        (folder / file).write_text(content, encoding="utf-8")
    return "\n".join(str(problem).replace(f"{folder}/", "") for problem in lint(spec))


def snapshot() -> dict[str, str]:
    blocks = SNAPSHOT.read_text(encoding="utf-8").split("\n## ")[1:]
    return {name: said.strip() for name, _, said in (block.partition("\n") for block in blocks)}


@pytest.mark.parametrize("name", CASES)
def test_a_broken_spec_is_answered_with_file_line_key_value_and_remedy(name: str, tmp_path: Path):
    said = messages(name, tmp_path)
    assert said
    assert said == snapshot()[name]


def test_the_snapshot_has_no_case_of_its_own():
    assert list(snapshot()) == list(CASES)
    assert len(CASES) >= 40


def test_the_spec_that_the_cases_are_made_from_has_no_mistake(tmp_path: Path):
    CASES_OF_NONE = {"rules": (GOOD, {}), "llm": (LLM + PROMPT, ASK)}
    for text, files in CASES_OF_NONE.values():
        (tmp_path / "spec.yaml").write_text(text)
        for file, content in files.items():
            (tmp_path / file).write_text(content)
        assert lint(tmp_path / "spec.yaml") == []


if __name__ == "__main__":
    said = ["The messages of tests/spec/test_broken_specs.py.\n"]
    for case in CASES:
        with tempfile.TemporaryDirectory() as place:
            said.append(f"\n## {case}\n{messages(case, Path(place).resolve())}\n")
    SNAPSHOT.write_text("".join(said), encoding="utf-8")
