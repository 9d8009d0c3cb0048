import pytest
from hypothesis import given
from hypothesis import strategies as st

from whileai.judging.budget import MIN_BUDGET, SHORTEST_CUT, fit, level
from whileai.judging.steps import Step
from whileai.judging.visible import visible

titles = st.sampled_from(["assistant", "user", "call get", "+call put", "result", "column log"])
bodies = st.one_of(
    st.text(max_size=40).map(visible),
    st.tuples(st.text(min_size=1, max_size=8).map(visible), st.integers(1, 900)).map(lambda pair: pair[0] * pair[1]),
)
steps = st.lists(st.builds(Step, titles, bodies), min_size=1, max_size=40)


@given(steps, st.integers(MIN_BUDGET, 5000))
def test_what_is_shown_keeps_to_the_budget_and_what_is_not_is_recorded(given_steps: list[Step], budget: int):
    lines, omissions = fit(given_steps, budget)
    assert len("\n".join(map(str, lines))) <= budget
    assert bool(omissions) == any(not line.whole for line in lines)
    assert [line.number for line in lines] == sorted({line.number for line in lines})
    for line in lines:
        if line.whole:
            assert given_steps[line.number - 1] == (line.title, line.text)
    for first, last, characters in omissions:
        assert 1 <= first <= last <= len(given_steps)
        assert characters > 0 or first < last or not given_steps[first - 1].text


@given(steps)
def test_a_rollout_within_its_budget_is_shown_whole(given_steps: list[Step]):
    whole = "\n".join(f"#{n} {step.title}: " + step.text.replace("\n", "\n| ") for n, step in enumerate(given_steps, 1))
    lines, omissions = fit(given_steps, max(len(whole) + 1, MIN_BUDGET))
    assert "\n".join(map(str, lines)) == whole
    assert omissions == []


@given(steps, st.data(), st.integers(MIN_BUDGET, 3000))
def test_steps_that_differ_anywhere_are_shown_differently(given_steps: list[Step], data: st.DataObject, budget: int):
    position = data.draw(st.integers(0, len(given_steps) - 1))
    text = given_steps[position].text
    at = data.draw(st.integers(0, len(text)))
    changed = [*given_steps]
    changed[position] = changed[position]._replace(text=f"{text[:at]}¤{text[at:]}")
    assert fit(given_steps, budget)[0] != fit(changed, budget)[0]


def test_long_texts_lose_their_middle_before_any_call_does():
    long_call = Step("call put", "c" * 600)
    lines, omissions = fit([Step("user", "u" * 100), long_call, Step("result", "z" * 5000 + "end")], 1800)
    assert [line.whole for line in lines] == [True, True, False]
    assert lines[2].text.startswith("zzz") and lines[2].text.endswith("end")
    assert f"⟨{omissions[0].characters:,} characters left out, " in lines[2].text
    assert omissions[0][:2] == (3, 3)
    assert lines[2].text.count("z") == 5000 - omissions[0].characters


def test_calls_are_cut_when_nothing_else_is_left_to_cut():
    lines, _ = fit([Step("assistant", "a"), Step("call put", "c" * 5000)], 1000)
    assert [line.whole for line in lines] == [True, False]


def test_steps_from_the_middle_go_last_and_one_mark_counts_them():
    given_steps = [Step("assistant", f"{n:03} " + "x" * 300) for n in range(100)]
    lines, omissions = fit(given_steps, 3000)
    gap = next(line for line in lines if not line.title)
    left_out = max(omissions, key=lambda omission: omission.last - omission.first)
    assert gap.text.startswith(
        f"⟨steps #{left_out.first} to #{left_out.last}, {left_out.characters:,} characters left out"
    )
    assert lines[0].text.startswith("000 ") and lines[-1].text.startswith("099 ")
    assert left_out.characters == 304 * (left_out.last - left_out.first + 1)


def test_no_cut_goes_through_a_mark():
    text = "⟨U+200B⟩" * 400
    for budget in range(600, 640):
        (line,), _ = fit([Step("assistant", text)], budget)
        assert line.text.replace("⟨U+200B⟩", "").count("⟨") == 1


@pytest.mark.parametrize(
    ("sizes", "room", "cap"), [([10, 10], 30, 10), ([10, 100], 60, 50), ([5, 5, 5], 3, 1), ([], 9, 0), ([7], -3, -3)]
)
def test_level_shares_the_room(sizes: list[int], room: int, cap: int):
    assert level(sizes, room) == cap


def test_nothing_is_cut_to_less_than_a_sentence():
    lines, _ = fit([Step("result", "r" * 9000) for _ in range(6)], 2000)
    assert all(len(line.text) >= SHORTEST_CUT - 60 for line in lines)
