"""How calls are made: schedule, retry, cache, journal, cost."""
