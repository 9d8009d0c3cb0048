def score_rubric(item, rubric):
    calls = item["completion"].count("<tool_call>")
    return {"solution": 1.0, "behavior": 1.0 if calls <= 2 else 0.5}


grs = wai.GroupwiseGrading(
    grader=score_rubric, mode="reward", rubrics={"refund-17": ["look up first"]}
)
print(
    grs.shape(
        [1, 1, 0],
        ["p"] * 3,
        ["<tool_call>x</tool_call> done", "<tool_call>x</tool_call>" * 3 + " done", "no"],
        group_size=3,
        task_id=["refund-17"] * 3,
    )
)
