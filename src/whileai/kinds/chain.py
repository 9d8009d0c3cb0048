"""The fallback chain: runners tried in turn until one gives a usable verdict.

The answer says which link gave it, why those before it did not, and which were skipped because they have no
certificate. Where every link fails the chain fails, and the group keeps its original rewards.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from whileai.core.rollout import copy_json
from whileai.core.verdict import read_scores, read_verdict
from whileai.engine.loop import run_on_loop
from whileai.engine.threads import in_thread
from whileai.errors import GraderFailure
from whileai.kinds.runner import Runner

Answers = Literal["verdict", "scores", "rubric"]


class Chain:
    """Runners in the order in which they are tried.

    Called with a group, in reward mode with a rollout and its rubric. A chain of one is that runner: its output
    comes back as it is. A longer one returns a mapping of what the link said and of

        link     the name of the runner that answered
        failed   why the links before it did not, by name
        skipped  names of links that were left out

    A rubric is passed on as it is: what stands beside its criteria would be read as one of them.

    Args:
        runners: the links, first one first.
        answers: what they answer.
        skipped: names of links that were left out.
    """

    def __init__(self, runners: Sequence[Runner], answers: Answers, skipped: Sequence[str] = ()) -> None:
        self.runners = tuple(runners)
        self.skipped = tuple(skipped)
        self.is_async = any(runner.is_async for runner in self.runners)
        self._plain = len(self.runners) == 1 and not self.skipped
        self._answers = answers

    def __call__(self, *said: Any) -> Any:
        """The answer, from any thread but the background loop's.

        Raises:
            GraderFailure: no link has a usable answer. A chain of one raises whatever its runner raises.
        """
        if self.is_async:
            return run_on_loop(self.agrade(*said))
        if self._plain:
            return self.runners[0](*said)
        failed: dict[str, BaseException] = {}
        for runner in self.runners:
            try:
                return self._answer(runner, runner(*copy_json(list(said))), said, failed)
            except Exception as error:  # noqa: BLE001 - a runner may be the author's own function
                failed[runner.name] = error
        raise self._failure(failed)

    async def agrade(self, *said: Any) -> Any:
        """The same, awaited; what is not asynchronous runs in a thread."""
        if self._plain:
            return await _called(self.runners[0], said)
        failed: dict[str, BaseException] = {}
        for runner in self.runners:
            try:
                return self._answer(runner, await _called(runner, copy_json(list(said))), said, failed)
            except Exception as error:  # noqa: BLE001 - a runner may be the author's own function
                failed[runner.name] = error
        raise self._failure(failed)

    def _answer(self, runner: Runner, output: Any, said: Sequence[Any], failed: Mapping[str, BaseException]) -> Any:
        """The output, read, with the chain's own remarks. Raises `UnusableVerdict`."""
        answer: dict[str, Any]
        if self._answers == "rubric":
            return output
        if self._answers == "scores":
            answer = read_scores(output)._asdict()
        else:
            group = said[0]
            passes = [rollout["index"] for rollout in group if rollout["passed"]]
            verdict = read_verdict(output, passes, len(group))
            answer = {**verdict.extra, "ranking": verdict.ranking, "factors": verdict.factors, "hacks": verdict.hacks}
        answer["link"] = runner.name
        if failed:
            answer["failed"] = {name: _reason(error) for name, error in failed.items()}
        if self.skipped:
            answer["skipped"] = list(self.skipped)
        return answer

    def _failure(self, failed: Mapping[str, BaseException]) -> GraderFailure:
        """The failure of the whole chain: of its first link's kind, with every link's reason."""
        first = next(iter(failed.values()), None)
        kind = first.kind if isinstance(first, GraderFailure) else "raised" if first else "no_link"
        reasons = [f"{name}: {_reason(error)}" for name, error in failed.items()]
        reasons += [f"{name}: skipped, no valid certificate" for name in self.skipped]
        failure = GraderFailure(kind, "; ".join(reasons))
        failure.__cause__ = first
        return failure


async def _called(runner: Runner, said: Sequence[Any]) -> Any:
    if not runner.is_async:
        return await in_thread(runner, *said)
    output = runner(*said)
    return await output if inspect.isawaitable(output) else output


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, GraderFailure) else f"{type(error).__name__}: {error}"
