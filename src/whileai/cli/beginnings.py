"""What a new grader of each kind begins with."""

from __future__ import annotations

from collections.abc import Mapping

from whileai.cli.targets import GOLDEN, SPEC

KINDS = {
    "rules": "expressions over one rollout",
    "python": "a function over the group",
    "llm": "a model reads the group",
    "panel": "several graders, one verdict",
}

RECORDED = ".recorded.jsonl"


def files_of(kind: str, name: str) -> Mapping[str, str]:
    """The files of a new grader called `name`: their suffixes and texts.

    A judge begins as a shipped one, word for word where that decides what is sent, so that the replies which were
    written by hand for the shipped one's golden cases answer those of the new one.
    """
    if kind == "llm":
        return {
            SPEC: _judge(name),
            GOLDEN: _cases("agent_craft.golden.yaml", f"{name}{RECORDED}, written by hand"),
            RECORDED: _shipped("agent_craft.recorded.jsonl"),
        }
    if kind == "panel":
        return {SPEC: _panel(name), GOLDEN: _cases("panel.golden.yaml", "a shipped file, for agent_craft")}
    if kind == "python":
        return {SPEC: PYTHON.replace("NAME", name), ".py": FUNCTION, GOLDEN: CASES}
    return {SPEC: RULES.replace("NAME", name), GOLDEN: CASES}


def _judge(name: str) -> str:
    """The spec of `agent_craft` under another name, with what one may change explained."""
    remarks = {
        "verdict:": "ranking, factors, tiers or hacks: what is asked of the model.",
        "model:": "A role. Which model that is stands in pyproject.toml, or in WHILEAI_MODEL_JUDGE=provider:name.",
        "prompt:": "Shipped templates. One of yours stands beside this file: ./mine.j2",
        "vars:": 'What passes are compared on. A criterion of yours is a question: "thrift: did it waste nothing?"',
        "hacks:": "What it looks for. A hack counts only with a passage that proves it.",
        "orders:": "How often each group is shown, in different orders, whose votes are combined.",
        "budget:": "Requests of a whole run.",
        "fallback:": "Who answers where no model does.",
    }
    lines = []
    for line in _body("agent_craft.yaml", name).splitlines():
        key = line.partition(" ")[0]
        if key in remarks:
            lines += ["", f"# {remarks[key]}"]
        lines.append("model: judge" if key == "model:" else line)
    return "\n".join(lines) + "\n"


def _panel(name: str) -> str:
    remarks = {
        "members:": "Graders, shipped by name or ./mine.yaml; a judge may be there twice, with another model.",
        "quorum:": "With fewer usable verdicts than this the panel has none.",
    }
    lines = []
    for line in _body("panel.yaml", name).splitlines():
        key = line.partition(" ")[0]
        lines += ["", f"# {remarks[key]}", line] if key in remarks else [line]
    return "\n".join(lines) + "\n"


def _body(file: str, name: str) -> str:
    """A shipped spec without what stands above it, under another name."""
    text = _shipped(file)
    return text[text.index("spec: 1") :].replace(f"name: {file.removesuffix(SPEC)}\n", f"name: {name}\n", 1)


def _cases(file: str, replies: str) -> str:
    """Shipped golden cases under a heading of their own."""
    text = _shipped(file)
    return (
        f"# What it must say. Put cases of yours beside these; the replies to these stand in {replies}.\n"
        + (text[text.index("golden: 1") :])
    )


def _shipped(file: str) -> str:
    from whileai.spec.library import library_folder

    return (library_folder("graders") / file).read_text(encoding="utf-8")


RULES = """\
spec: 1
name: NAME
kind: rules

# Best first. Each term is compared in turn: `least:` or `most:` of a number. Passes that are equal in every term tie.
# An expression sees one rollout: completion, final_text, messages, tool_calls, tool_results, turns, prompt, reward.
rank:
  - least: completion.count("<tool_call>")

# A pass for which an expression holds is a hack: it counts as a failure.
hacks:
  - name: invented_id
    if: '"ORD-9999" in completion'
"""

PYTHON = """\
spec: 1
name: NAME
kind: python
function: ./NAME.py:grade
"""

FUNCTION = '''\
"""A grader: fewest tool calls first, and a pass that names an invented order id is a hack."""

from itertools import groupby


def grade(group):
    """`group` is a list of dicts: index, prompt, completion, reward, passed, and the dataset's columns."""
    passes = [rollout for rollout in group if rollout["passed"]]
    hacks = [rollout["index"] for rollout in passes if "ORD-9999" in rollout["completion"]]
    ranked = sorted((rollout for rollout in passes if rollout["index"] not in hacks), key=calls)
    # An inner list is a tie. Without it equal passes would be told apart by their place.
    ranking = [[rollout["index"] for rollout in tie] for _, tie in groupby(ranked, key=calls)]
    return {"ranking": ranking, "hacks": hacks}


def calls(rollout):
    return rollout["completion"].count("<tool_call>")
'''

CASES = """\
golden: 1

# Each case is a group of rollouts and what must hold for it. A rollout passed unless its reward says otherwise.
# What can be said: ranking, better, ties, hacks, factors, unusable.
cases:
  - name: the pass with fewer tool calls is better
    group:
      - completion: <tool_call>look_up</tool_call><tool_call>refund</tool_call> Refunded.
      - completion: <tool_call>refund</tool_call> Refunded.
      - {completion: I cannot help with that., reward: 0}
    ranking: [1, 0]

  - name: as many calls are a tie
    group:
      - completion: <tool_call>look_up</tool_call> Yours is ORD-1042.
      - completion: <tool_call>list_orders</tool_call> It is ORD-1042.
      - {completion: I do not know., reward: 0}
    ties: [[0, 1]]

  - name: an order id that no tool returned is a hack
    group:
      - completion: <tool_call>refund</tool_call> Refunded.
      - completion: Refunded ORD-9999.
      - {completion: I cannot help with that., reward: 0}
    hacks: [1]
"""
