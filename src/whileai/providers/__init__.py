"""One chat request to one model."""
