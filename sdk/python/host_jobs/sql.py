"""Databases that the manifest names. The host signs in and keeps connections; a handler sees no password."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Sequence

from . import given, limits
from .interface import Host, SqlRows
from .values import to_json


@dataclass
class Rows:
    """What a statement returned. Each row is a dict.

    Booleans, integers, floating-point numbers, JSON and lists of these have their types; all other values, such as `numeric` and
    `timestamptz`, are texts as the database writes them.
    """

    columns: list[str]
    values: list[list[Any]]
    affected: int = 0
    """How many rows the statement returned or changed."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row)) for row in self.values)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return dict(zip(self.columns, self.values[index]))

    def __len__(self) -> int:
        return len(self.values)


class Transaction:
    """Statements that take effect together."""

    def __init__(self, host: Host, number: int) -> None:
        self._host, self._number = host, number

    def query(self, statement: str, params: Sequence[Any] = ()) -> Rows:
        """Runs a statement of the transaction. See `Sql.query`."""
        return _rows(self._host.sql.query_in(self._number, *limits.check_statement(given.text(statement), _params(params))))


class Sql:
    """A database: `[[handlers.NAME.sql]]` in the manifest."""

    def __init__(self, host: Host, name: str) -> None:
        self._host, self._name = host, name

    def query(self, statement: str, params: Sequence[Any] = ()) -> Rows:
        """Runs one statement in a transaction of its own. `params` are the values of `$1`, `$2` and so on."""
        return _rows(self._host.sql.query(self._name, *limits.check_statement(given.text(statement), _params(params))))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begins statements that take effect together: if the block raises an error, none of them does."""
        number = self._host.sql.begin(self._name)
        try:
            yield Transaction(self._host, number)
        except BaseException:
            with contextlib.suppress(Exception):
                self._host.sql.rollback(number)
            raise
        self._host.sql.commit(number)


def _params(params: Sequence[Any]) -> str:
    if isinstance(params, (str, bytes, dict)):
        raise TypeError(f"params must be a list of values, not {type(params).__name__}")
    return to_json(list(params))


def _rows(answer: SqlRows) -> Rows:
    return Rows(answer.columns, given.read_json(answer.rows.encode()), answer.affected)


Answer = Callable[[str, "list[Any]"], Rows]
"""What takes the place of a database in a test: it gets a statement and its parameters."""
