"""Rows with a known quality, and graders that ought to pass the gate or to be refused by it.

A rollout's completion says its true quality (`q=0.1234`), which only good graders read. Every grader here is a
factory: `make(seed)` gives a fresh one.
"""

import hashlib
import itertools
import random
import threading

SIZES = (2, 3, 4, 5)


def rows(groups, seed=0, sizes=SIZES, failures=1):
    """Rows of `groups` groups with a random number of passes each, and `failures` failures."""
    rng = random.Random(seed)
    found = []
    for number in range(groups):
        for _ in range(rng.choice(sizes)):
            text = f"task {number}: q={rng.gauss(0, 1):.6f}"
            found.append({"group_id": f"g{number}", "reward": 1, "completion": text, "turns": rng.randint(1, 9)})
        for number_of_failure in range(failures):
            found.append({"group_id": f"g{number}", "reward": 0, "completion": f"failed {number_of_failure}"})
    return found


def quality(rollout):
    return float(rollout["completion"].rpartition("=")[2])


def passes(group):
    return [rollout for rollout in group if rollout["passed"]]


def ranker(score):
    """`score(rollout, slot, size, rng)`, more is better; fresh randomness in every call."""

    def make(seed):
        rng, lock = random.Random(seed), threading.Lock()

        def grade(group):
            shown = passes(group)
            with lock:
                scores = {r["index"]: score(r, slot, len(shown), rng) for slot, r in enumerate(shown)}
            tiers = [
                [index for index, value in scores.items() if value == level]
                for level in sorted(set(scores.values()), reverse=True)
            ]
            return {"ranking": tiers}

        return grade

    return make


def noisy(snr, slot_bias=0.0, middle_bias=0.0):
    """Quality with noise whose variance is 1 / snr, and preferences for places."""
    return ranker(
        lambda r, slot, size, rng: (
            quality(r) + rng.gauss(0, snr**-0.5) + slot_bias * slot + middle_bias * abs(slot - (size - 1) / 2)
        )
    )


def constant_inside(seed):
    rng = random.Random(seed)

    def grade(group):
        factor = rng.uniform(0.2, 1)
        return {"factors": {r["index"]: factor for r in passes(group)}}

    return grade


def nearly_constant_inside(seed):
    rng = random.Random(seed)

    def grade(group):
        level = rng.uniform(0.2, 0.9)
        return {"factors": {r["index"]: level + rng.uniform(0, 0.05) for r in passes(group)}}

    return grade


def fails_every_third(seed):
    calls = itertools.count(seed)
    good = noisy(100)(seed)

    def grade(group):
        if next(calls) % 3 == 0:
            raise RuntimeError("the judge is down")
        return good(group)

    return grade


def unusable_every_fifth(seed):
    calls = itertools.count(seed)
    good = noisy(100)(seed)
    return lambda group: {"ranking": []} if next(calls) % 5 == 0 else good(group)


def call_parity(seed):
    """Best first on even calls, worst first on odd ones."""
    calls = itertools.count(seed)

    def grade(group):
        sign = 1 if next(calls) % 2 else -1
        return {"ranking": [r["index"] for r in sorted(passes(group), key=lambda r: sign * quality(r))]}

    return grade


def one_above_the_rest(seed):
    """A random pass stands out, the others are tied."""
    rng = random.Random(seed)

    def grade(group):
        indices = [r["index"] for r in passes(group)]
        best = rng.choice(indices)
        return {"ranking": [best, [index for index in indices if index != best]]}

    return grade


def random_hacks(seed):
    """A good ranking in which a fifth of the passes is called hacks by chance."""
    rng = random.Random(seed)
    good = noisy(100)(seed)
    return lambda group: {**good(group), "hacks": [r["index"] for r in passes(group) if rng.random() < 0.2]}


def steady_hack_random_rest(seed):
    """Always the same hack in a group, and a random order of the others."""
    rng = random.Random(seed)

    def grade(group):
        found = sorted(passes(group), key=quality)
        rest = [r["index"] for r in found[1:]]
        rng.shuffle(rest)
        return {"ranking": rest, "hacks": [found[0]["index"]]}

    return grade


def marks_what_it_saw(seed):
    """Random, but it writes its answer into the rollouts and looks there first."""
    rng = random.Random(seed)

    def grade(group):
        for r in passes(group):
            r.setdefault("mark", [rng.random()])
            r.setdefault("notes", []).append(1)
        return {"ranking": [r["index"] for r in sorted(passes(group), key=lambda r: r["mark"])]}

    return grade


def all_but_the_first_are_hacks(seed):
    return lambda group: {"ranking": [passes(group)[0]["index"]], "hacks": [r["index"] for r in passes(group)[1:]]}


def everything_is_a_hack(seed):
    return lambda group: {"ranking": [], "hacks": [r["index"] for r in passes(group)]}


def half_are_hacks(seed):
    rng = random.Random(seed)

    def grade(group):
        hacks = [r["index"] for r in passes(group) if rng.random() < 0.5]
        return {"ranking": [[r["index"] for r in passes(group) if r["index"] not in hacks]], "hacks": hacks}

    return grade


def places_in_large_groups(seed):
    """Exact for two or three passes, the shown order for more."""
    exact, shown = GOOD["exact"](seed), BAD["shown order"](seed)
    return lambda group: (exact if len(passes(group)) <= 3 else shown)(group)


def random_noise_in_factors(seed):
    """Factors that differ inside groups by noise, and between groups by a lot."""
    rng = random.Random(seed)

    def grade(group):
        level = rng.uniform(0.2, 0.8)
        return {"factors": {r["index"]: level + rng.uniform(0, 0.2) for r in passes(group)}}

    return grade


def rarely_random(seed):
    """Ties everything, but for one group in eight, where it is random."""
    rng = random.Random(seed)

    def grade(group):
        indices = [r["index"] for r in passes(group)]
        if rng.random() < 1 / 8:
            rng.shuffle(indices)
            return {"ranking": indices}
        return {"ranking": [indices]}

    return grade


def by_hash(seed):
    def digest(r):
        return hashlib.sha256(f"{seed}{r['completion']}".encode()).hexdigest()

    return lambda group: {"ranking": [r["index"] for r in sorted(passes(group), key=digest)]}


def remembers(seed):
    """Random, but the same answer whenever it meets the same texts."""
    rng, memory = random.Random(seed), {}

    def grade(group):
        marks = {r["completion"]: memory.setdefault(r["completion"], rng.random()) for r in passes(group)}
        return {"ranking": [r["index"] for r in sorted(passes(group), key=lambda r: marks[r["completion"]])]}

    return grade


BAD = {
    "random": ranker(lambda r, slot, size, rng: rng.random()),
    "shown order": ranker(lambda r, slot, size, rng: -slot),
    "last first": ranker(lambda r, slot, size, rng: slot),
    "ends first": ranker(lambda r, slot, size, rng: abs(slot - (size - 1) / 2)),
    "ends first, no ties": ranker(lambda r, slot, size, rng: abs(slot - (size - 1) / 2) - slot / 1000),
    "middle first": ranker(lambda r, slot, size, rng: -abs(slot - (size - 1) / 2)),
    "even slots first": ranker(lambda r, slot, size, rng: -(slot % 2) - slot / 1000),
    "even index": ranker(lambda r, slot, size, rng: -(r["index"] % 2) - r["index"] / 1000),
    "first only": ranker(lambda r, slot, size, rng: slot == 0),
    "prompt length": ranker(lambda r, slot, size, rng: len(r["prompt"])),
    "constant inside": constant_inside,
    "nearly constant inside": nearly_constant_inside,
    "fails every third call": fails_every_third,
    "unusable every fifth call": unusable_every_fifth,
    "call parity": call_parity,
    "one random above the rest": one_above_the_rest,
    "rarely random": rarely_random,
    "marks what it saw": marks_what_it_saw,
    "all but the first are hacks": all_but_the_first_are_hacks,
    "everything is a hack": everything_is_a_hack,
    "half are hacks by chance": half_are_hacks,
    "noise in factors": random_noise_in_factors,
    "steady hack, random rest": steady_hack_random_rest,
    "random hacks": random_hacks,
    "snr 4, likes the first": noisy(4, slot_bias=-1.0),
    "snr 4, likes the ends": noisy(4, middle_bias=1.5),
}
"""Graders that must never be certified."""

GOOD = {
    "snr 4": noisy(4),
    "snr 16": noisy(16),
    "exact": ranker(lambda r, slot, size, rng: quality(r)),
    "exact, coarse": ranker(lambda r, slot, size, rng: round(quality(r))),
    "worst one": ranker(lambda r, slot, size, rng: quality(r) > -0.8),
    "few tied levels": ranker(lambda r, slot, size, rng: r["turns"] // 3),
}
"""Graders that deserve a certificate."""

BORDERLINE = {
    "snr 1": noisy(1),
    "snr 0.25": noisy(0.25),
    "places in large groups": places_in_large_groups,
}
"""Graders that know something: few groups may leave them through, and many decide."""

RELIABLE_AND_WORTHLESS = {
    "by hash": by_hash,
    "remembers": remembers,
    "by text": ranker(lambda r, slot, size, rng: sum(map(ord, r["completion"])) % 97),
}
"""Graders that no look at their verdicts alone can refuse: golden cases can."""
