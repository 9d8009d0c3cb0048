"""One chat request to one model.

A provider of your own implements `Provider` and is registered by the entry point group `whileai.providers`.
"""

from whileai.providers.protocol import ChatReply, ChatRequest, Finish, Provider, Turn, Usage
from whileai.providers.registry import make_provider

__all__ = ["ChatReply", "ChatRequest", "Finish", "Provider", "Turn", "Usage", "make_provider"]
