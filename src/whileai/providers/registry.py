"""Which class serves a provider's name: the built-in ones, and any package's by the entry point group
below."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from whileai.errors import ConfigError
from whileai.providers.protocol import ParameterType, Provider

if TYPE_CHECKING:
    from whileai.spec.roles import ResolvedRole

GROUP = "whileai.providers"
"""The entry point group: `gemini = "my_package.gemini:Gemini"` makes `gemini:` a provider."""

BUILT_IN = {
    "openai": "whileai.providers.openai_chat:OpenAIChat",
    "anthropic": "whileai.providers.anthropic_messages:AnthropicMessages",
    "recorded": "whileai.providers.recorded:Recorded",
}


def make_provider(role: ResolvedRole) -> Provider:
    """The provider for a resolved role. Nothing is imported of an SDK and nothing is sent before the first
    request.

    Raises:
        ConfigError: no such provider, or parameters that it does not know.
    """
    provider_class = provider_class_of(role.provider)
    needed = ("parameters", "default_max_tokens", "send", "aclose")
    if lacks := [name for name in needed if not hasattr(provider_class, name)]:
        raise ConfigError(f"provider {role.provider!r} ({provider_class.__name__}) lacks {' and '.join(lacks)}")
    check_parameters(role.provider, provider_class.parameters, role.params)
    provider: Provider = provider_class(role)
    return provider


def provider_class_of(name: str) -> Any:
    """The class behind `name:`, called with a role.

    Raises:
        ConfigError: no such provider, where the message names the nearest one, or one that cannot be loaded.
    """
    known = _known()
    if name not in known:
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"a package adds one by the entry point group {GROUP!r}"
        raise ConfigError(f"no provider {name!r}; there are {', '.join(sorted(known))} ({hint})")
    try:
        return known[name].load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"provider {name!r} ({known[name].value}) cannot be loaded: {error}") from error


def check_parameters(provider: str, known: Mapping[str, ParameterType], params: Mapping[str, Any]) -> None:
    """Refuse parameters that the provider does not know, and values of a wrong type.

    Raises:
        ConfigError: names every parameter that the provider knows.
    """
    for name, value in params.items():
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}? it" if near else "it"
            raise ConfigError(
                f"provider {provider!r} knows no parameter {name!r}; {hint} knows {', '.join(sorted(known)) or 'none'}"
            )
        kinds = known[name]
        types: tuple[type, ...] = kinds if isinstance(kinds, tuple) else (kinds,)
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            wanted = " or ".join(kind.__name__ for kind in types)
            raise ConfigError(f"parameter {name!r} of provider {provider!r} is {value!r}; it wants {wanted}")
    if params.get("max_tokens", 1) < 1:
        raise ConfigError(f"parameter 'max_tokens' of provider {provider!r} is {params['max_tokens']}; at least 1")


@cache
def _known() -> dict[str, EntryPoint]:
    known = {name: EntryPoint(name, target, GROUP) for name, target in BUILT_IN.items()}
    for point in entry_points(group=GROUP):
        if point.name in known and known[point.name].value != point.value:
            both = f"{known[point.name].value} and {point.value}"
            raise ConfigError(f"two packages register the provider {point.name!r}: {both}")
        known[point.name] = point
    return known
