from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loopback.clock import SkippingClock
from whileai.engine.cache import LEARNED_FOR_S, Cache, cache_key
from whileai.errors import ConfigError
from whileai.providers import ChatReply, Usage
from whileai.providers.capabilities import Learned
from whileai.spec.roles import ResolvedRole

REPLY = ChatReply("text \N{SNOWMAN} \x00", "stop", "m-1", Usage(10, 5, cached=2), request_id="r")
ROLE = ResolvedRole("openai", "m", params={"temperature": 0.5, "seed": 1})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "cache.sqlite"


def test_what_is_put_is_got(path: Path) -> None:
    assert Cache(path).get("key") is None
    Cache(path).put("key", replace(REPLY, steps=("json_schema",)))
    assert Cache(path).get("key") == REPLY
    Cache(path).remove("key")
    assert Cache(path).get("key") is None


def test_the_key_is_provider_model_parameters_and_the_request() -> None:
    key = cache_key(ROLE, "hash")
    assert cache_key(replace(ROLE, params={"seed": 1, "temperature": 0.5}), "hash") == key
    assert cache_key(replace(ROLE, role="judge", prices={"input": 1.0, "output": 1.0}, api_key_env="K"), "hash") == key
    others = {
        cache_key(replace(ROLE, provider="anthropic"), "hash"),
        cache_key(replace(ROLE, name="n"), "hash"),
        cache_key(replace(ROLE, params={"seed": 2, "temperature": 0.5}), "hash"),
        cache_key(ROLE, "another hash"),
    }
    assert len({key, *others}) == 5


def test_a_claim_is_held_until_put_or_release(path: Path) -> None:
    cache = Cache(path)
    assert cache.claim("key", 60) == "claimed"
    assert cache.claim("key", 60) == "busy"
    assert cache.claim("other", 60) == "claimed"
    cache.release("key")
    assert cache.claim("key", 60) == "claimed"
    cache.put("key", REPLY)
    assert cache.claim("key", 60) == REPLY


def test_a_claim_ends_with_its_time(path: Path) -> None:
    skipping = SkippingClock()
    cache = Cache(path, skipping.clock)
    assert cache.claim("key", 60) == "claimed"
    skipping.ahead += 59
    assert cache.claim("key", 60) == "busy"
    skipping.ahead += 2
    assert cache.claim("key", 60) == "claimed"


CLAIM = """
import sys
from pathlib import Path
from whileai.engine.cache import Cache
print(Cache(Path(sys.argv[1])).claim("key", 600), flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="tells dead processes by POSIX signals")
def test_a_claim_ends_with_its_process(path: Path) -> None:
    cache = Cache(path)
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "claimed\n"
        assert cache.claim("key", 60) == "busy"
        other.kill()
        other.wait(30)
        assert cache.claim("key", 60) == "claimed"


def test_a_claim_ends_with_its_process_though_this_one_has_its_number(path: Path) -> None:
    """As in a container that was killed and started again: the same host, and every process has the number it had."""
    cache = Cache(path)
    subprocess.run([sys.executable, "-c", CLAIM, str(path)], input="", text=True, check=True, stdout=subprocess.DEVNULL)
    connection = sqlite3.connect(path)
    (owner,) = connection.execute("SELECT owner FROM claims").fetchone()
    connection.execute("UPDATE claims SET owner = ?", (re.sub(r"^\d+", str(os.getpid()), owner),))
    connection.commit()
    connection.close()
    assert cache.claim("key", 60) == "claimed"
    assert Cache(path).claim("key", 60) == "busy"


CLAIM_ALL = """
import sys
from pathlib import Path
from whileai.engine.cache import Cache
from whileai.providers import ChatReply
cache = Cache(Path(sys.argv[1]))
for number in range(100):
    if cache.claim(str(number), 60) == "claimed":
        cache.put(str(number), ChatReply("text", "stop"))
        print(number)
"""


def test_several_processes_make_one_file_and_claim_everything_once(path: Path) -> None:
    command = [sys.executable, "-c", CLAIM_ALL, str(path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    claimed = [process.communicate(timeout=60)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sorted(int(number) for mine in claimed for number in mine) == list(range(100))


def test_what_an_endpoint_takes_is_remembered_for_a_week(path: Path) -> None:
    skipping = SkippingClock()
    known = Learned("openai", "http://h/v1", "m", {"format": "prompt"}, {"format"})
    Cache(path, skipping.clock).remember(known)
    assert Cache(path, skipping.clock).recall() == [known]
    skipping.ahead += LEARNED_FOR_S + 1
    assert Cache(path, skipping.clock).recall() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_opens_its_own_connection(path: Path) -> None:
    cache = Cache(path)
    cache.put("parent", REPLY)
    pid = os.fork()
    if pid == 0:
        cache.put("child", REPLY)
        cache.close()
        os._exit(0 if cache.get("parent") == REPLY else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert cache.get("child") == REPLY
    assert cache.claim("after", 60) == "claimed"


def test_a_file_that_is_no_cache_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("this is not a database, and it is longer than a header of SQLite would be" * 20)
    with pytest.raises(ConfigError, match=r"cannot be used.*delete it if it is damaged"):
        Cache(path)
    assert path.read_text().startswith("this is not a database")


def test_a_cache_of_another_version_is_named(path: Path) -> None:
    Cache(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(ConfigError, match="made by another version"):
        Cache(path)


def test_a_cache_that_fails_later_is_logged_once_and_done_without(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = Cache(path)
    connection: Any = sqlite3.connect(path)
    connection.execute("DROP TABLE replies")
    connection.close()
    assert cache.get("key") is None
    cache.put("key", REPLY)
    assert cache.claim("key", 60) == "claimed"
    assert [record.getMessage() for record in caplog.records if "fails" in record.getMessage()] == [
        f"the cache {path} fails, replies are asked for again: no such table: replies"
    ]
