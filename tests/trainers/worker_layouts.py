"""Trains and evaluates in many layouts, in one of several processes: `torchrun ... worker_layouts.py FOLDER`.

Each process writes what it saw to FOLDER/RANK.json: for each layout, the texts and the advantages of every batch
that the trainer scored, and the groups that its judge was shown. `test_layouts.py` puts the processes together.
"""

import json
import logging
import os
import sys
from pathlib import Path

import whileai as wai
from conftest import chance, tiny_trainer

ROWS = [{"prompt": f"task {i}", "task_id": i} for i in range(12)]

LAYOUTS = {  # by number of processes; rows of one process in a batch, and the size of a group
    1: [
        {"batch": 2, "group": 2},
        {"batch": 3, "group": 3},
        {"batch": 4, "group": 4},
        {"batch": 6, "group": 3},
        {"batch": 2, "group": 4, "accumulate": 2},
        {"batch": 2, "group": 4, "accumulate": 1, "per_generation": 4},
        {"batch": 4, "group": 4, "evaluate": 2},
        {"batch": 4, "group": 4, "evaluate": 2, "judge_in_eval": True},
    ],
    2: [
        {"batch": 2, "group": 4},
        {"batch": 3, "group": 2},
        {"batch": 3, "group": 6},
        {"batch": 4, "group": 4},
        {"batch": 6, "group": 4},
        {"batch": 3, "group": 4, "accumulate": 2},
        {"batch": 3, "group": 4, "accumulate": 1, "per_generation": 2},
        {"batch": 6, "group": 4, "evaluate": 3},
        {"batch": 6, "group": 4, "evaluate": 4, "judge_in_eval": True},
    ],
    3: [
        {"batch": 2, "group": 6},
        {"batch": 2, "group": 3},
        {"batch": 3, "group": 9},
        {"batch": 4, "group": 6},
        {"batch": 4, "group": 3},
        {"batch": 6, "group": 9},
        {"batch": 2, "group": 4, "accumulate": 2},
        {"batch": 2, "group": 3, "accumulate": 1, "per_generation": 2},
        {"batch": 4, "group": 6, "evaluate": 4, "judge_in_eval": True},
    ],
}


class Judge:
    def __init__(self):
        self.groups = []

    def __call__(self, group):
        self.groups.append([rollout["completion"] for rollout in group])
        passes = sorted((r for r in group if r["passed"]), key=lambda r: chance(r["completion"]))
        hacks = [r["index"] for r in passes if is_hack(r["completion"])]
        return {"ranking": [r["index"] for r in passes if r["index"] not in hacks], "hacks": hacks}


def is_hack(text):
    return chance("hack" + text) < 0.3


def is_pass(text):
    return chance("verified" + text) < 0.5


def run(layout, folder):
    judge, texts = Judge(), []

    def verifier(prompts, completions, task_id, **columns):
        texts.append(completions)
        return list(map(float, map(is_pass, completions)))

    gar = wai.GroupwiseGrading(grader=judge, accept_unchecked="a judge of the tests", deadline_s=60)
    evaluate = layout.get("evaluate")
    trainer = tiny_trainer(
        [gar.trl_reward(verifier, judge_in_eval=layout.get("judge_in_eval", False))],
        ROWS,
        folder=folder,
        eval_rows=ROWS[:5] if evaluate else None,
        per_device_train_batch_size=layout["batch"],
        num_generations=layout["group"],
        gradient_accumulation_steps=layout.get("accumulate", 1),
        steps_per_generation=layout.get("per_generation"),
        num_generations_eval=evaluate,
        per_device_eval_batch_size=layout["batch"],
        max_steps=4,
    )
    trainer.train()
    trained = len(texts)
    if evaluate:
        trainer.evaluate()
    return {
        "layout": layout,
        "batches": [
            {"texts": batch, "advantages": advantages, "train": number < trained}
            for number, (batch, advantages) in enumerate(zip(texts, trainer.seen, strict=True))
        ],
        "judged": judge.groups,
    }, trainer


def main():
    folder, world = Path(sys.argv[1]), int(os.environ.get("WORLD_SIZE", "1"))
    logging.getLogger("whileai").setLevel(logging.ERROR)
    seen = []
    for layout in LAYOUTS[world]:
        found, trainer = run(layout, folder / "runs")
        seen.append(found)
    rank = os.environ.get("RANK", "0")
    (folder / f"{rank}.json").write_text(json.dumps(seen), encoding="utf-8")
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.end_training()
    os._exit(0)  # one run in ten aborts while torch takes itself down, with or without a reward function of ours


if __name__ == "__main__":
    main()
