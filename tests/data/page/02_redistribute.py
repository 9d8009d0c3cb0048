from whileai.methods import redistribute

print(redistribute([1, 1, 0, 0], factors={0: 1.0, 1: 0.5}))
