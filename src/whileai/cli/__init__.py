"""The `whileai` command."""
