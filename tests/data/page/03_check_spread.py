rows = [
    {
        "scenario_id": "refund-17",
        "reward": 1,
        "final_text": "<tool_call>lookup</tool_call><tool_call>refund</tool_call> done",
    },
    {"scenario_id": "refund-17", "reward": 1, "final_text": "<tool_call>refund</tool_call> done"},
    {"scenario_id": "refund-17", "reward": 0, "final_text": "I cannot help with that."},
    {
        "scenario_id": "refund-22",
        "reward": 1,
        "final_text": "<tool_call>lookup</tool_call><tool_call>refund</tool_call> done",
    },
    {
        "scenario_id": "refund-22",
        "reward": 1,
        "final_text": "<tool_call>lookup</tool_call><tool_call>lookup</tool_call><tool_call>refund</tool_call> done",
    },
    {"scenario_id": "refund-22", "reward": 1, "final_text": "Refunded ORD-9999."},
]
print(gar.check_spread(rows))
