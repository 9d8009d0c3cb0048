def verifier(prompts, completions, **kwargs):
    return [1.0 if "done" in c else 0.0 for c in completions]


reward_func = gar.trl_reward(verifier, num_generations=4)
print(reward_func(prompts=["p"] * 4, completions=["a done", "b done", "c", "d"]))
print(gar.stats)
