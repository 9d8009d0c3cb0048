"""Values and pure functions: rollouts, verdicts, factors, redistribution, statistics. No I/O, no model."""
