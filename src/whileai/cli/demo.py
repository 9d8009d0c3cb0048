"""`whileai demo`: the whole way on shipped rollouts, without a key or a server."""

from __future__ import annotations


def demo() -> None:
    """Show it all at work on shipped rollouts, without a key or a server."""
    from whileai.cli import output, tour
    from whileai.cli.versions import other_whileai

    console = output.console()
    if (warning := other_whileai()) is not None:
        output.say(console, warning, "bold red", indent=0)
    tour.show_function(console)
    tour.show_spec(console)
    tour.show_next(console)
