"""Writes `graders/NAME.recorded.jsonl`: the replies in this folder, as recordings for the golden cases of each judge.

    python tests/hand_replies/record.py

Run it after any change of a prompt, schema, spec or golden case: a recording is found by the exact request. A reply
is written down once for each case, by index of the rollouts, with `{0}` in a text for the label of rollout 0; here
it is put into the words of every presentation order. A panel's replies are those of its judges. Where a reply would
not be usable the command fails and writes nothing.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from whileai.checks.golden import Case, golden_beside, load_golden
from whileai.judging.prompt import JudgePrompt
from whileai.loader import CompiledGrader, load_grader
from whileai.providers.protocol import ChatReply, ChatRequest
from whileai.providers.recorded import record
from whileai.spec.library import library_folder

FOLDER = Path(__file__).parent
MODELS = dict.fromkeys(("judge", "judge_backup", "second_judge"), "recorded:")
JUDGES = tuple(sorted(file.stem for file in FOLDER.glob("*.yaml")))


def write_recordings(folder: Path) -> None:
    """Write the recordings of every judge into `folder`, in the place of those that are there."""
    recordings: dict[str, list[tuple[ChatRequest, str]]] = {}
    for name in JUDGES:
        for judge, request, reply in replies_to_cases(name):
            recordings.setdefault(judge, []).append((request, reply))
    for judge, pairs in recordings.items():
        path = folder / f"{judge}.recorded.jsonl"
        path.unlink(missing_ok=True)
        for request, reply in pairs:
            record(path, request, ChatReply(reply, "stop"), by="hand")


def replies_to_cases(name: str) -> Iterator[tuple[str, ChatRequest, str]]:
    """Judge, request and reply for everything that is asked in the golden cases of one grader."""
    written = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    grader = load_grader(name, models=MODELS)
    cases = load_golden(golden_beside(library_folder("graders") / f"{name}.yaml")).cases
    if unmatched := {case.name for case in cases} ^ set(written):
        raise ValueError(f"{name}: these are a golden case or a reply, and not both: {', '.join(sorted(unmatched))}")
    for judge in _judges_of(grader):
        for case in cases:
            for said, reply in _questions(judge, case, written[case.name]):
                for prompt in judge.prompts(*said):
                    text = worded(reply, prompt)
                    prompt.read(text)
                    request = ChatRequest(prompt.system, (("user", prompt.user),), prompt.form.schema)
                    yield judge.name, request, text


def worded(reply: dict[str, Any], prompt: JudgePrompt) -> str:
    """A reply by index of the rollouts as the judge words it, who sees them as `prompt` shows them."""
    labels = {
        index: label
        for label, candidate in zip(prompt.shown.labels, prompt.shown.candidates, strict=True)
        for index in candidate.indices
    }

    def by_label(value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\{(\d+)\}", lambda match: labels[int(match[1])], value)
        if isinstance(value, dict) and value and all(isinstance(key, int) for key in value):
            return {label: by_label(value[index]) for label, index in sorted((labels[key], key) for key in value)}
        return value

    said = {name: by_label(value) for name, value in reply.items()}
    if "ranking" in said:
        ranks = {labels[index]: rank for rank, tie in enumerate(reply["ranking"], 1) for index in tie}
        said["ranking"] = dict(sorted(ranks.items()))
    if "hacks" in said:
        said["hacks"] = [
            {"candidate": labels[hack["index"]], "kind": hack["kind"], "evidence": hack["evidence"]}
            for hack in reply["hacks"]
        ]
    return json.dumps({name: said[name] for name in prompt.form.schema["properties"]}, ensure_ascii=False)


def _judges_of(grader: CompiledGrader) -> list[CompiledGrader]:
    """The graders that ask a model: the grader itself, or the members of a panel."""
    if grader.spec.kind == "llm":
        return [grader]
    members = [
        load_grader(name, models=MODELS) for name in dict.fromkeys(member.grader for member in grader.spec.members)
    ]
    return [member for member in members if member.spec.kind == "llm"]


def _questions(judge: CompiledGrader, case: Case, reply: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """What the judge is given in one case, each with the reply to it: the group, or each pass and its rubric."""
    if "passes" not in reply:
        yield (case.group,), reply
        return
    for index in case.passes:
        yield (case.group[index], case.expected.rubric), reply["passes"][index]


if __name__ == "__main__":
    write_recordings(library_folder("graders"))
