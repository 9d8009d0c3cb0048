"""Replies that were used, kept in an SQLite file that several processes can share.

Only a usable reply is stored, repaired or not, under the request that it finally answered. A process that is about
to ask claims the request first; others that want the same reply wait for it. A claim ends with its reply, with its
time, or with its process.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import socket
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from whileai.engine.deadline import REAL_CLOCK, Clock
from whileai.errors import ConfigError
from whileai.providers.capabilities import Learned
from whileai.providers.keys import redact
from whileai.providers.protocol import ChatReply, Usage
from whileai.spec.roles import ResolvedRole

R = TypeVar("R")

Claim = ChatReply | Literal["claimed", "busy"]

_log = logging.getLogger("whileai")

_VERSION = 1
_LOCK_WAIT_S = 10.0
LEARNED_FOR_S = 7 * 24 * 3600.0
"""Seconds for which an endpoint's missing capabilities are remembered; it may have been updated since."""

_TABLES = (
    "CREATE TABLE replies (key TEXT PRIMARY KEY, reply TEXT NOT NULL, stored REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, ends REAL NOT NULL) WITHOUT ROWID",
    "CREATE TABLE learned (identity TEXT PRIMARY KEY, rungs TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID",
)


def cache_key(role: ResolvedRole, request: str) -> str:
    """Hash of provider, model, parameters and the first request, which is given as its `request_key`."""
    asked = [role.provider, role.name, sorted(role.params.items()), request]
    return hashlib.sha256(json.dumps(asked, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class Cache:
    """The cache in one file, made if it does not exist. Used from one thread of each process.

    A file that fails later (a full disk) is logged, and the calls go on without it.

    Raises:
        ConfigError: the file cannot be used; the message says what to do.
    """

    def __init__(self, path: Path, clock: Clock = REAL_CLOCK) -> None:
        self.path = path
        self._clock = clock
        self._connections: dict[int, sqlite3.Connection] = {}
        self._failed = False
        self._connection()

    def get(self, key: str) -> ChatReply | None:
        """The stored reply."""
        return self._doing(lambda connection: _stored(connection, key), None)

    def claim(self, key: str, seconds: float) -> Claim:
        """The stored reply; or `claimed`: ask for it, then `put` or `release`; or `busy`: another process asks.

        Args:
            seconds: after which the claim ends by itself.
        """

        def work(connection: sqlite3.Connection) -> Claim:
            now = self._clock.time()
            with _transaction(connection):
                if (reply := _stored(connection, key)) is not None:
                    return reply
                row = connection.execute("SELECT owner, ends FROM claims WHERE key = ?", (key,)).fetchone()
                if row is not None and row[1] > now and _is_alive(row[0]):
                    return "busy"
                claim = (key, _owner(), now + seconds)
                connection.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", claim)
            return "claimed"

        return self._doing(work, "claimed")

    def put(self, key: str, reply: ChatReply) -> None:
        """Store a usable reply, and end this process's claim."""
        text = json.dumps({name: value for name, value in asdict(reply).items() if name != "steps"})

        def work(connection: sqlite3.Connection) -> None:
            with _transaction(connection):
                connection.execute(
                    "INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", (key, redact(text), self._clock.time())
                )
                connection.execute("DELETE FROM claims WHERE key = ? AND owner = ?", (key, _owner()))

        self._doing(work, None)

    def release(self, key: str) -> None:
        """End this process's claim; there is no reply."""
        self._run("DELETE FROM claims WHERE key = ? AND owner = ?", key, _owner())

    def remove(self, key: str) -> None:
        """Forget a stored reply."""
        self._run("DELETE FROM replies WHERE key = ?", key)

    def remember(self, learned: Learned) -> None:
        """Keep what an endpoint was found to take."""
        row = (json.dumps(learned.identity), json.dumps(learned.rungs), self._clock.time())
        self._run("INSERT OR REPLACE INTO learned VALUES (?, ?, ?)", *row)

    def recall(self) -> list[Learned]:
        """What is remembered of endpoints and not too old."""
        since = self._clock.time() - LEARNED_FOR_S
        known = []
        for identity, text in self._run("SELECT identity, rungs FROM learned WHERE at > ?", since):
            provider, model, base_url = json.loads(identity)
            rungs = json.loads(text)
            known.append(Learned(provider, base_url, model, rungs, set(rungs)))
        return known

    def close(self) -> None:
        """Close this process's connection; the next use opens a new one."""
        if (connection := self._connections.pop(os.getpid(), None)) is not None:
            connection.close()

    def _run(self, statement: str, *values: object) -> list[Any]:
        return self._doing(lambda connection: connection.execute(statement, values).fetchall(), [])

    def _doing(self, work: Callable[[sqlite3.Connection], R], otherwise: R) -> R:
        """What the work gives; `otherwise` when the file fails, which is logged once: a verdict is worth more."""
        try:
            return work(self._connection())
        except (sqlite3.Error, ConfigError) as error:
            if not self._failed:
                self._failed = True
                _log.error("the cache %s fails, replies are asked for again: %s", self.path, error)
            return otherwise

    def _connection(self) -> sqlite3.Connection:
        # A connection that was inherited by a fork is its parent's: it stays in the dict, unused and open.
        pid = os.getpid()
        if pid not in self._connections:
            self._connections[pid] = _connect(self.path)
        return self._connections[pid]


def _connect(path: Path) -> sqlite3.Connection:
    connection = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=_LOCK_WAIT_S, isolation_level=None, check_same_thread=False)
        _use_write_ahead_log(connection)
        connection.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing; a power cut may
        with _transaction(connection):
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {_VERSION}")
    except (OSError, sqlite3.Error) as error:
        if connection is not None:
            connection.close()
        raise ConfigError(
            f"the cache {str(path)!r} cannot be used ({error}); delete it if it is damaged, or name another file"
        ) from None
    if version not in (0, _VERSION):
        connection.close()
        raise ConfigError(f"the cache {str(path)!r} was made by another version of whileai; delete it")
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Switch the file, once in its life. SQLite does not wait for its lock here when others switch it too."""
    give_up = time.monotonic() + _LOCK_WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.01)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _stored(connection: sqlite3.Connection, key: str) -> ChatReply | None:
    row = connection.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
    if row is None:
        return None
    fields = json.loads(row[0])
    return ChatReply(**{**fields, "usage": Usage(**fields["usage"])})


@cache
def _host() -> str:
    return socket.gethostname()


def _owner() -> str:
    return f"{os.getpid()}.{_token(os.getpid())}@{_host()}"


@cache
def _token(pid: int) -> str:
    """Tells this process from one that died and had its number: in a container that is started again, every one has."""
    return uuid.uuid4().hex[:12]


def _is_alive(owner: str) -> bool:
    """Whether the process that made a claim may still be at work on it."""
    process, _, host = owner.partition("@")
    pid = int(process.partition(".")[0])
    if host != _host():
        return True
    if pid == os.getpid():
        return owner == _owner()
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # alive, and another user's
    return True
