"""One chat request to one model.

A provider of your own implements `Provider` and is registered by the entry point group `whileai.providers`;
`error_of` and `read_key` are there to help it.
"""

from whileai.providers.keys import read_key
from whileai.providers.protocol import ChatReply, ChatRequest, Finish, Provider, Turn, Usage
from whileai.providers.registry import make_provider
from whileai.providers.statuses import error_of

__all__ = ["ChatReply", "ChatRequest", "Finish", "Provider", "Turn", "Usage", "error_of", "make_provider", "read_key"]
