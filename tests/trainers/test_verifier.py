import math

import numpy as np
import pytest

from whileai.errors import BatchError
from whileai.trainers.verifier import BLIND_BATCHES, VerifierCalls

TEXTS = ["a", "b", "c", "d"]


def called(verifier, texts=TEXTS, **keywords):
    calls = verifier if isinstance(verifier, VerifierCalls) else VerifierCalls(verifier)
    return calls(["p"] * len(texts), texts, keywords, concurrency=4, deadline_s=20)


@pytest.mark.parametrize(
    ("given", "rewards"),
    [
        ([1, 0.5, True, 0], [1.0, 0.5, 1.0, 0.0]),
        ([1.0, None, math.nan, math.inf], [1.0, None, None, None]),
        ((1.0, 0.0, -math.inf, 2.0), [1.0, 0.0, None, 2.0]),
        (np.array([1, 0, 1, 0], dtype=np.float32), [1.0, 0.0, 1.0, 0.0]),
        ([np.float64(1.0), np.int64(0), 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]),
    ],
)
def test_rewards_in_any_usual_form(given, rewards):
    assert called(lambda **_: given) == rewards


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ([1.0] * 3, "3 rewards for 4 completions"),
        ([], "0 rewards for 4 completions"),
        (None, "NoneType for 4 completions"),
        (1.0, "float for 4 completions"),
        ("1010", "str for 4 completions"),
        (dict.fromkeys(range(4), 1.0), "dict for 4 completions"),
        ([1.0, 0.0, "1", 0.0], "row 2: reward '1' is not a number"),
    ],
)
def test_what_is_no_reward_per_row_is_refused(given, found):
    with pytest.raises(BatchError, match=found):
        called(lambda **_: given)


def test_a_row_that_raises_is_unscored_and_the_rest_is_scored_by_itself(caplog):
    seen = []

    def verifier(prompts, completions, ticket, log_extra, trainer_state):
        seen.append((prompts, completions, ticket, trainer_state))
        log_extra("mine", completions)
        if "c" in completions:
            raise LookupError("no test log of c")
        return [float(t) for t in ticket]

    logged, state = [], object()
    calls = VerifierCalls(verifier)
    found = called(calls, ticket=[1, 2, 3, 4], log_extra=lambda *said: logged.append(said), trainer_state=state)
    assert found == [1.0, 2.0, None, 4.0]
    assert seen[1:] == [(["p"], [text], [number], state) for number, text in enumerate(TEXTS, 1)]
    assert logged == [("mine", TEXTS)], "a table of the trainer wants its rows once"
    assert calls.failures == 1
    (record,) = caplog.records
    assert "1 of 4 rows raised again" in record.message and "LookupError: no test log of c" in record.message
    assert record.exc_info


async def _outage(completions, **_):
    raise ConnectionError("no sandbox")


def test_an_outage_of_a_verifier_that_once_worked_never_ends_the_run():
    up = [True]

    async def verifier(completions, **_):
        return [1.0] * len(completions) if up[0] else await _outage(completions)

    calls = VerifierCalls(verifier)
    assert called(calls) == [1.0] * 4
    up[0] = False
    for _ in range(BLIND_BATCHES + 2):
        assert called(calls) == [None] * 4


def test_a_verifier_that_never_scored_a_row_ends_the_run():
    calls = VerifierCalls(_outage)
    for _ in range(BLIND_BATCHES - 1):
        assert called(calls) == [None] * 4
    with pytest.raises(ConnectionError, match="no sandbox"):
        called(calls)


def test_a_verifier_is_a_callable():
    with pytest.raises(BatchError, match="verifier='exact': a callable is wanted"):
        VerifierCalls("exact")
