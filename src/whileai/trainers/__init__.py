"""Adapters from graders to trainers."""
