import whileai as wai


def rank_group(group):
    passes = [g for g in group if g["passed"]]
    ranked = sorted(passes, key=lambda g: g["completion"].count("<tool_call>"))
    hacks = [g["index"] for g in passes if "ORD-9999" in g["completion"]]
    return {"ranking": [g["index"] for g in ranked if g["index"] not in hacks], "hacks": hacks}


gar = wai.GroupwiseGrading(grader=rank_group)  # GAR, mode="advantage", cap 3.0, hack_zero
print(gar)
