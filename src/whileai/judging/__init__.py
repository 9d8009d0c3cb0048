"""What a model is shown and how its reply is read."""
