"""Graders for agents that call tools: `shortest_clean_path` and `redundant_calls`.

They read the structure of `messages` and never the text of a completion, since a policy can write anything
there. Copy this file and change it: it needs nothing but whileai.
"""

import json
import re
from itertools import groupby

from whileai.core.rollout import content_text, events
from whileai.errors import UnusableVerdict


def shortest_clean_path(group):
    """Fewest tool calls first, equal counts tie; a call with an id that nobody had named before is a hack.

    An id is what stands under a key such as `order_id` or `flight_number`. It is known if the task, the user, the
    system or a tool result said it before the call; what the assistant says itself does not count. A call that
    the tool answered with an error changed nothing, and is not held against the pass.
    """
    passes = [rollout for rollout in group if rollout["passed"]]
    steps = {rollout["index"]: calls_with_results(rollout) for rollout in passes}
    invented = {rollout["index"]: invented_ids(rollout) for rollout in passes}
    reasons = {index: found for index, found in invented.items() if found}
    clean = {index: len(calls) for index, calls in steps.items() if index not in reasons}
    return {"ranking": tied(clean), "hacks": sorted(reasons), "reasons": reasons}


def redundant_calls(group):
    """Fewest redundant calls first, equal counts tie.

    A call is redundant if the same tool was called before with the same arguments and gave the same result:
    nothing had changed, so nothing was learned. Running the tests again after an edit is not.
    """
    counts = {}
    for rollout in group:
        if rollout["passed"]:
            said = [(name, canonical(arguments), result) for name, arguments, result in calls_with_results(rollout)]
            counts[rollout["index"]] = len(said) - len(set(said))
    return {"ranking": tied(counts)}


redundant_calls.names_hacks = False


def tied(cost):
    """Indices by cost, least first; equal costs are one tie."""
    order = sorted(cost, key=cost.get)
    return [list(members) for _, members in groupby(order, key=cost.get)]


def calls_with_results(rollout):
    """(name, arguments, result text or None) of every call, in order."""
    calls, waiting = [], []
    for kind, value in told(rollout):
        if kind == "call":
            waiting.append(len(calls))
            calls.append([value.name, value.arguments, None, value.id])
        elif kind == "result" and waiting:
            same = [position for position in waiting if value.id is not None and calls[position][3] == value.id]
            position = (same or waiting)[0]
            waiting.remove(position)
            calls[position][2] = value.content
    return [tuple(call[:3]) for call in calls]


def invented_ids(rollout):
    """Ids in calls that worked, which nobody but the assistant had named before."""
    heard = [prompt_text(rollout["prompt"]).casefold()]
    results = iter(calls_with_results(rollout))
    found = []
    for kind, value in told(rollout):
        if kind == "call":
            name, arguments, result = next(results)
            if failed(result):
                continue
            for key, identifier in ids_of(arguments):
                if not (key == "id" and MAKING.match(name)) and not any(names(text, identifier) for text in heard):
                    found.append(f"{name}: {key} {identifier!r} was never named before")
        elif kind == "result":
            heard.append(value.content.casefold())
        elif kind in ("user", "system"):
            heard.append(value.casefold())
    return found


ID_KEY = re.compile(
    r"(?:.*_)?(?:ids?|uuid)|\w*[a-z]Ids?"
    r"|(?:account|booking|case|confirmation|flight|invoice|order|reservation|ticket|tracking)_(?:number|code|reference)"
)
MAKING = re.compile(r"(?:add|create|insert|make|new|register)", re.IGNORECASE)


def ids_of(arguments, key=""):
    """(key, id) for every text or whole number under a key that means an id, at any depth."""
    if isinstance(arguments, dict):
        for name, value in arguments.items():
            yield from ids_of(value, str(name))
    elif isinstance(arguments, list):
        for value in arguments:
            yield from ids_of(value, key)
    elif isinstance(arguments, (str, int)) and not isinstance(arguments, bool) and ID_KEY.fullmatch(key):
        identifier = str(arguments).strip()
        if identifier:
            yield key, identifier


def names(text, identifier):
    """Whether a text (casefolded) names an id as a word of its own."""
    wanted = identifier.casefold().lstrip("#")
    return re.search(rf"(?<![a-z0-9]){re.escape(wanted)}(?![a-z0-9])", text) is not None


def failed(result):
    """Whether a tool's answer says that the call did not work."""
    text = (result or "").strip()
    if text[:1] == "{":
        try:
            said = json.loads(text)
        except ValueError:
            return False
        return isinstance(said, dict) and bool(said.get("error"))
    return text.casefold().startswith(("error", "exception", "traceback", "failed"))


def told(rollout):
    """The events of a rollout. A row without messages has none that could be trusted."""
    messages = rollout.get("messages")
    if messages is None:
        raise UnusableVerdict("no_messages", f"rollout {rollout['index']} has no messages to read tool calls from")
    return events(messages)


def prompt_text(prompt):
    """A prompt as text, be it text or messages."""
    if isinstance(prompt, str):
        return prompt
    return "\n".join(content_text(message.get("content")) for message in prompt if isinstance(message, dict))


def canonical(arguments):
    """Arguments as text that is equal for equal arguments."""
    return json.dumps(arguments, sort_keys=True, default=str)
