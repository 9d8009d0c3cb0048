import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def graders():
    """The module `graders.py` of this folder."""
    spec = importlib.util.spec_from_file_location("gate_graders", Path(__file__).with_name("graders.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
