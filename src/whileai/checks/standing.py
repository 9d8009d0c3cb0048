"""What one `GroupwiseGrading` knows of its grader: its last check, its certificates, its rubrics.

A plain function is its owner's own: unchecked it is warned about once, and a check that said no refuses it. A
compiled grader needs a certificate, or a check in this process, before it may shape anything; what is found is
kept, so that it is decided once, and travels in a pickle to the processes of a training run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from whileai.engine.rubrics import RubricBook, Rubrics
from whileai.errors import UncheckedGraderError

if TYPE_CHECKING:
    from pathlib import Path

    from whileai.checks.admission import Admission
    from whileai.checks.votes import GateKnobs

logger = logging.getLogger("whileai")


def is_compiled(grader: object) -> bool:
    """The grader was compiled from a spec: it has links and a fingerprint, and so needs certificates."""
    return hasattr(grader, "fingerprint_parts") and hasattr(grader, "links")


class Standing:
    """See the module.

    Args:
        grader, rubrics: those of the object.
        basis: with them, what the outcome of a check depends on.
        original: of the object that this one is a variant of; what still holds is taken over.
    """

    def __init__(self, grader: Any, rubrics: Rubrics, basis: tuple[Any, ...], original: Standing | None) -> None:
        self.grader, self.basis = grader, basis
        self.check: bool | None = None
        self.warned = False
        self.admission: Admission | None = None
        written: dict[Hashable, Any] | None = None
        if original is not None and original.book.source is rubrics:
            written = original.book.written()
            if original.grader is grader and original.basis == basis:
                self.check, self.warned, self.admission = original.check, original.warned, original.admission
        self.book: RubricBook = RubricBook(rubrics, written)

    def usable(
        self, name: str, *, knobs: Callable[[], GateKnobs], certificate: str | Path | None, accepted: str | None
    ) -> Any:
        """The grader that may shape rewards: a compiled one without the links that may not.

        Args:
            name: what messages call it.
            knobs: makes the knobs of training, where certificates are looked for.
            certificate: where they are looked for first.
            accepted: the reason for going without a check, if one was given.

        Raises:
            UncheckedGraderError: there is none; the message names the command.
        """
        if accepted:
            return self.grader
        if is_compiled(self.grader):
            if self.admission is None:
                from whileai.checks.admission import admit  # pydantic comes with it, which plain functions never need

                self.admission = admit(self.grader, knobs=knobs(), certificate=certificate)
            return self.admission.grader
        if self.check is False:
            raise UncheckedGraderError(
                f"{name} failed its check (check_spread said no): training on it would spend the grader's price for "
                "plain rewards. Change it and check again, or pass accept_unchecked='the reason'"
            )
        return self.grader

    def warn_if_unchecked(self, name: str) -> None:
        """Once, for a plain function that nobody checked."""
        if self.check is None and not self.warned and not is_compiled(self.grader):
            self.warned = True
            logger.warning(
                "%s was never checked: run check_spread on graded rows before the GPU is spent, or pass "
                "accept_unchecked='the reason'",
                name,
            )

    def checked(self, ok: bool | None) -> None:
        """A check was made; None: there was not enough data, which changes nothing."""
        self.admission = None
        if ok is not None:
            self.check = ok

    @property
    def in_use(self) -> Any:
        """The grader as training calls it: without the links that may not run, once that is decided."""
        return self.grader if self.admission is None else self.admission.grader

    def found(self) -> tuple[bool | None, Admission | None] | None:
        """What was found in favour of the grader, as `take` takes it in another process; None if nothing was."""
        return (self.check, self.admission) if self.check or self.admission is not None else None

    def take(self, found: tuple[bool | None, Admission | None]) -> None:
        """Go by what was found in another process."""
        self.check, self.admission = found
