"""Warm-up in a training run: plain rewards until the grader passed its check on the run's own rollouts.

`checks.warmup` says what is kept and what an answer means; here the processes of a run agree on it. Every call
in training brings the counts of all ranks together. When there are enough groups, rank 0 gets everyone's rows,
checks, and hands the answer round, so that all ranks grade from one and the same call on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, NamedTuple

from whileai.checks.report import Answer
from whileai.checks.warmup import Recorder, Warmup
from whileai.core.group import Group
from whileai.trainers.collectives import Processes, beside, telling
from whileai.trainers.shaper import Shaper
from whileai.trainers.split import RESULT_GRACE_S

logger = logging.getLogger("whileai")


class _Answer(NamedTuple):
    """What rank 0 hands round. `proof`: see `Shaper.export_check`."""

    answer: Answer
    said: str
    proof: Any


class WarmupRun:
    """One rank's part in the warm-up of a run.

    Args:
        shaper: the grading that is to be checked.
        groups: groups with two or more passes, over all ranks, that the check is made on.
        record: where they are written too; with several processes a file per rank.
    """

    def __init__(self, shaper: Shaper, groups: int, record: str | Path | None) -> None:
        self.shaper, self._groups, self._record = shaper, groups, record
        self._warmup = Warmup(groups)
        self._begun = self._asked = False
        self._check: Future[_Answer] | None = None

    @property
    def grading(self) -> bool:
        """The grader may shape rewards."""
        return self._warmup.state == "graded"

    @property
    def warming(self) -> bool:
        """It is not decided yet."""
        return self._warmup.state == "collecting"

    def begin(self, peers: Processes | None) -> None:
        """Before a call in training: a grader that was checked before the run needs no warm-up."""
        if self._begun:
            return
        self._begun = True
        with telling(peers):
            rank, world = (0, 1) if peers is None else (peers.rank, peers.world)
            found = self.shaper.export_check() if rank == 0 else None
            self._settle(peers, None if found is None else _Answer("yes", "it was checked before this run", found))
            if self.warming and self._record is not None:
                self._warmup = Warmup(self._groups, Recorder(self._record, rank, world))

    def step(self, groups: Sequence[Group], peers: Processes | None) -> None:
        """After a call in training: keep its groups, and check when there are enough of them.

        Rank 0 waits for the check until the deadline; what takes longer goes on beside the training, and its
        answer is handed round in the first call that finds it.

        Args:
            groups: those that this rank shaped.
            peers: the processes of the run, if there are several.

        Raises:
            RankError: another rank failed, or did not come. What the check itself raises is raised on rank 0.
        """

        if not self.warming:
            return
        with telling(peers):
            self._warmup.add(groups)
            patience: float | None = 0.0
            if not self._asked:
                if not self._warmup.due(self._counts(peers)):
                    return
                rows = self._rows(peers)
                self._asked, patience = True, self.shaper.deadline_s
                if peers is None or peers.rank == 0:
                    self._check = beside(lambda: self._answer(rows), "whileai-warmup")
            check = self._check
            if check is not None:
                wait([check], patience)
            self._settle(peers, check.result() if check is not None and check.done() else None)

    def _counts(self, peers: Processes | None) -> list[int]:
        count = self._warmup.count
        if peers is None:
            return [count]
        return peers.gather("counts of a warm-up", count, within_s=self.shaper.deadline_s)

    def _rows(self, peers: Processes | None) -> list[dict[str, Any]]:
        """On rank 0 the rows of all ranks."""
        own = self._warmup.rows
        if peers is None:
            return list(own)
        others = range(1, peers.world) if peers.rank == 0 else ()
        received = peers.exchange(
            "rows of a warm-up", {0: own} if peers.rank else {}, senders=others, within_s=self.shaper.deadline_s
        )
        return [*own, *(row for rank in others for row in received[rank])]

    def _answer(self, rows: list[dict[str, Any]]) -> _Answer:
        report = self.shaper.check_spread(rows, strict=False)
        return _Answer(report.verdict, str(report), self.shaper.export_check() if report.ok else None)

    def _settle(self, peers: Processes | None, answer: _Answer | None) -> None:
        """Hand rank 0's answer round, and follow it; None: there is none yet."""
        if peers is not None:
            deadline_s = self.shaper.deadline_s
            received = peers.exchange(
                "answer of a warm-up",
                dict.fromkeys(range(1, peers.world), answer) if peers.rank == 0 else {},
                senders=[0] if peers.rank else [],
                within_s=None if deadline_s is None else deadline_s + RESULT_GRACE_S,
            )
            answer = received[0] if peers.rank else answer
        if answer is None:
            return
        self._asked, self._check = False, None
        if answer.answer == "yes":
            self.shaper.import_check(answer.proof)
        state = self._warmup.settle(answer.answer)
        then = {
            "graded": "rewards are graded from the next call on",
            "plain": "rewards stay the verifier's own for the rest of this run",
            "collecting": f"rewards stay the verifier's own until there are {self._warmup.target} groups",
        }[state]
        logger.log(
            logging.INFO if state == "graded" else logging.WARNING,
            "warm-up: %s; %s.\n%s",
            answer.answer,
            then,
            answer.said,
        )
