"""`whileai models`: how each role resolves, which host it calls, what was learned of it, and whether it answers."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whileai.cli import output
from whileai.cli.options import Json, Models

if TYPE_CHECKING:
    from whileai.spec.roles import ResolvedRole, Roles

_PROBE_TEXT = 'Reply with the JSON object {"ok": true}.'
_PROBE_SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
_PROBE_CAP = 256
"""Tokens of the reply to the tiny request, where the role sets no cap: room for a model that thinks a little."""


def models(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ROLE",
            help="Roles, models as provider:name, or specs, whose models are meant. Default: every role.",
            show_default=False,
        ),
    ] = None,
    model: Models = None,
    ask: Annotated[bool, typer.Option("--ask", help="Send one tiny request to each. This may cost money.")] = False,
    json: Json = False,
) -> None:
    """Show the models behind the roles: host, key, price, and what was learned of the endpoint.

    Without --ask nothing is sent. With it, the exit code is 1 if one of them does not answer.
    """
    from whileai.cli.targets import roles_of
    from whileai.spec.roles import Roles

    roles = Roles(roles_of(model))
    found = [pair for name in names or roles.names() for pair in _meant(name, roles, model)]
    described = [_describe(name, role) for name, role in found]
    if ask:
        for known, (_, role) in zip(described, found, strict=True):
            if known["problem"] is None:
                _announce(known)
                known["answer"] = _ask(role)
    if json:
        output.print_json(described)
    else:
        _show(described)
    if ask and not all(known.get("answer", {}).get("ok") for known in described):
        raise typer.Exit(1)


def _meant(name: str, roles: Roles, given: list[str] | None) -> list[tuple[str, ResolvedRole]]:
    """The model of a role, or of provider:name; or every model of a spec, a panel's members included."""
    from whileai.cli.targets import SPEC, load_target
    from whileai.errors import ConfigError
    from whileai.loader import CompiledGrader
    from whileai.spec.library import find_shipped

    if not name.endswith(SPEC) and (":" in name or name in roles.names() or not find_shipped("graders", name, (SPEC,))):
        return [(name, roles.resolve(name))]
    grader = load_target(name, given)
    assert isinstance(grader, CompiledGrader)
    found = {model.role or str(model): model for judge in grader.judges.values() for model in judge.models}
    if not found:
        raise ConfigError(f"{name} asks no model: it is kind: {grader.spec.kind}")
    return list(found.items())


def _describe(name: str, role: ResolvedRole) -> dict[str, Any]:
    """One model, for people and machines. No key is in it, only its variable's name and whether that is set."""
    from whileai.engine.cost import pricing_of
    from whileai.errors import ConfigError
    from whileai.providers import make_provider

    problem, priced, variable = None, False, role.api_key_env
    try:
        make_provider(role)
        priced = pricing_of(role) is not None
        variable = _key_variable(role)
    except ConfigError as error:
        problem = str(error)
    return {
        "role": name,
        "model": str(role),
        "host": role.host,
        "defined": role.origin,
        "key": variable,
        "key_set": None if variable is None else bool(os.environ.get(variable, "").strip()),
        "params": dict(role.params),
        "prices": role.prices,
        "priced": priced,
        "context": role.context,
        "learned": _learned(role),
        "problem": problem,
    }


def _key_variable(role: ResolvedRole) -> str | None:
    from whileai.providers import keys

    if role.provider not in keys.OWN_URLS:
        return role.api_key_env
    return keys.key_variable(role.provider, keys.base_url(role.provider, role.base_url), role.api_key_env)


def _learned(role: ResolvedRole) -> dict[str, str]:
    """What an endpoint was found to take, in this process or, as the project's cache remembers, in an earlier one."""
    from whileai.engine.cache import Cache
    from whileai.engine.places import kept_file
    from whileai.providers import capabilities, keys

    if role.provider not in keys.OWN_URLS:
        return {}
    if (path := kept_file("cache.sqlite")) is not None:
        cache = Cache(path)
        for known in cache.recall():
            capabilities.recall(known)
        cache.close()
    url = role.base_url or keys.OWN_URLS[role.provider]
    return dict(capabilities.learned(role.provider, url, role.name).rungs)


def _announce(model: dict[str, Any]) -> None:
    """What is about to be sent, and where to, before it is."""
    price = "at its price" if model["priced"] else "at an unknown price"
    where = model["host"] or "no host"
    output.say(output.console(stderr=True), f"asking {model['model']} at {where}: one tiny request, {price}", indent=0)


def _ask(role: ResolvedRole) -> dict[str, Any]:
    """Whether one tiny request is answered, and how."""
    from dataclasses import replace

    from whileai.engine.calls import ModelCaller
    from whileai.engine.places import run_file
    from whileai.engine.retry import RetryPolicy
    from whileai.errors import ModelsFailed
    from whileai.providers import ChatRequest

    question = ChatRequest("", (("user", _PROBE_TEXT),), schema=_PROBE_SCHEMA, repeat=time.time_ns())
    capped = {"max_tokens": _PROBE_CAP, **role.params} if role.provider != "recorded" else role.params
    caller = ModelCaller(
        [replace(role, params=capped)],
        name="models",
        policy=RetryPolicy(attempts=1, repairs=0),
        cache=run_file("cache.sqlite"),
    )
    began = time.monotonic()
    try:
        result = caller.call_blocking(question, read=str)
    except ModelsFailed as failed:
        return {"ok": False, "kind": failed.kind, "reason": failed.links[0].reason}
    finally:
        caller.close()
    reply = result.reply
    return {
        "ok": True,
        "seconds": round(time.monotonic() - began, 3),
        "served_model": reply.served_model,
        "text": reply.text[:200],
        "usage": reply.usage,
        "cost_usd": None if result.cost.unknown else result.cost.usd,
        "asked_without": list(reply.steps),
    }


def _show(described: Sequence[dict[str, Any]]) -> None:
    console = output.console()
    if not described:
        output.say(
            console,
            'no role is defined: write judge = "provider:name" under [tool.whileai.models] in pyproject.toml, or set '
            "WHILEAI_MODEL_JUDGE",
            indent=0,
        )
    for model in described:
        output.say(console, f"{model['role']}: {model['model']}", "bold", indent=0)
        for line, style in _lines(model):
            output.say(console, line, style)


def _lines(model: dict[str, Any]) -> list[tuple[str, str]]:
    key = f"key in {model['key']} ({'set' if model['key_set'] else 'NOT SET'})" if model["key"] else "no key is sent"
    lines = [(f"calls {model['host'] or 'no host of its own'}; {key}", "yellow" if model["key_set"] is False else "")]
    if model["defined"]:
        lines.append((f"defined in: {model['defined']}", "dim"))
    if model["params"]:
        lines.append((", ".join(f"{name} = {value!r}" for name, value in model["params"].items()), ""))
    lines.append(("price known" if model["priced"] else "price unknown: give the role prices, or budget calls", ""))
    if model["context"]:
        lines.append((f"context of {model['context']} tokens", ""))
    if model["learned"]:
        lines.append((f"learned: it takes {', '.join(sorted(model['learned'].values()))}", ""))
    if model["problem"] is not None:
        lines.append((model["problem"], "red"))
    answer = model.get("answer")
    if answer and answer["ok"]:
        cost = "an unknown price" if answer["cost_usd"] is None else f"${answer['cost_usd']:.6f}"
        lines.append((f"answered in {answer['seconds']:.2f} s as {answer['served_model']}, {cost}", "green"))
    elif answer:
        lines.append((f"does not answer, {answer['kind']}: {answer['reason']}", "red"))
    return lines
