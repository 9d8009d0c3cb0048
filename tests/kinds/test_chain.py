import asyncio

import pytest

from whileai.core.verdict import read_scores, read_verdict
from whileai.errors import GraderFailure, UnusableVerdict
from whileai.kinds.chain import Chain
from whileai.kinds.runner import Runner

GROUP = [{"index": index, "passed": index < 2, "completion": "x"} for index in range(3)]


class Says(Runner):
    """A runner that gives or raises what it was made with."""

    def __init__(self, name: str, output: object) -> None:
        self.name, self.output, self.seen = name, output, []

    def __call__(self, *said: object) -> object:
        self.seen.append(said)
        if isinstance(self.output, BaseException):
            raise self.output
        return self.output


class Later(Says):
    is_async = True

    async def __call__(self, *said: object) -> object:
        return super().__call__(*said)


def both(chain: Chain, *said: object) -> object:
    """The answer of the chain, which is the same called and awaited."""
    called = chain(*said)
    assert asyncio.run(chain.agrade(*said)) == called
    return called


def test_a_chain_of_one_is_its_runner():
    output = {"ranking": [1, 0], "why": "x"}
    assert both(Chain([Says("a", output)], "verdict"), GROUP) is output
    with pytest.raises(KeyError):
        Chain([Says("a", KeyError("own error"))], "verdict")(GROUP)


@pytest.mark.parametrize("kind", [Says, Later])
def test_the_first_usable_answer_counts_and_says_which_link_gave_it(kind):
    links = [
        kind("a", UnusableVerdict("no_messages", "no messages")),
        Says("b", {"ranking": [0]}),
        Says("c", ValueError("broken")),
        kind("d", {"ranking": [[1, 0]], "why": "calm"}),
        Says("e", {"ranking": [0, 1]}),
    ]
    answer = both(Chain(links, "verdict", ["f"]), GROUP)
    assert answer["link"] == "d"
    assert answer["failed"] == {
        "a": "no messages",
        "b": "passing index 1 has no place in the ranking",
        "c": "ValueError: broken",
    }
    assert answer["skipped"] == ["f"]
    assert answer["why"] == "calm"
    assert read_verdict(answer, [0, 1], 3).ranking == ((1, 0),)
    assert links[4].seen == []


def test_the_chain_fails_as_its_first_link_when_every_link_does():
    chain = Chain([Says("a", UnusableVerdict("refusal", "no")), Says("b", {"ranking": "x"})], "verdict", ["c"])
    for call in (lambda: chain(GROUP), lambda: asyncio.run(chain.agrade(GROUP))):
        with pytest.raises(GraderFailure) as caught:
            call()
        assert caught.value.kind == "refusal"
        assert caught.value.reason == "a: no; b: ranking is 'x', not a list; c: skipped, no valid certificate"


def test_what_one_link_does_to_the_group_the_next_does_not_see():
    class Destroys(Says):
        def __call__(self, group):
            group[0]["passed"] = False
            group.clear()
            raise ValueError("gone")

    last = Says("b", {"ranking": [0, 1]})
    Chain([Destroys("a", None), last], "verdict")(GROUP)
    assert last.seen[0][0] == GROUP
    assert len(GROUP) == 3


def test_scores_are_read_the_same_way():
    links = [Says("a", {"solution": 2, "behavior": 1}), Says("b", {"solution": 0.5, "behavior": 1})]
    answer = both(Chain(links, "scores"), GROUP[0], "rubric")
    assert read_scores(answer) == (0.5, 1.0)
    assert (answer["link"], list(answer["failed"])) == ("b", ["a"])


def test_a_chain_of_skipped_links_still_says_what_was_skipped():
    assert both(Chain([Says("b", {"ranking": [0, 1]})], "verdict", ["a"]), GROUP)["skipped"] == ["a"]
