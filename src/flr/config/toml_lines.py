"""Line numbers for the keys of a TOML text, which the standard library's parser does not give."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field

Place = tuple[str | int, ...]  # a key path; numbers count the elements of an array from 0

_TOKEN = re.compile(
    r"""
      (?P<skip>[ \t\r]+|\#[^\n]*)
    | (?P<newline>\n)
    | (?P<string>\"{3}(?:\\.|[^\\])*?\"{3,5} | '{3}.*?'{3,5} | "(?:\\.|[^"\\])*" | '[^']*')
    | (?P<mark>[\[\]{},=.])
    | (?P<bare>[^\s\[\]{},=.\#'"]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_DEEPEST = (
    32  # deeper places are refused anyway, and all prefixes of a long one take quadratic room
)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


@dataclass
class _Scanner:
    """A cursor over a text that `tomllib` has accepted: it finds its way and checks nothing."""

    tokens: list[_Token]
    at: int = 0
    lines: dict[Place, int] = field(default_factory=dict)
    arrays: dict[Place, int] = field(default_factory=dict)  # index of the last [[table]] so far

    def peek(self) -> str:
        """The next mark, or "" before anything else; a quoted "=" is no mark."""
        token = self.tokens[self.at]
        return token.text if token.kind in ("mark", "newline") else ""

    def accept(self, mark: str) -> bool:
        found = self.peek() == mark
        self.at += found
        return found

    def skip_newlines(self) -> None:
        while self.accept("\n"):
            pass

    def note(self, place: Place, line: int) -> None:
        if len(place) <= _DEEPEST:
            self.lines.setdefault(place, line)

    def key(self) -> list[_Token]:
        parts = [self.tokens[self.at]]
        self.at += 1
        while self.accept("."):
            parts.append(self.tokens[self.at])
            self.at += 1
        return parts

    def header(self) -> Place:
        """`[a.b]` or `[[a.b]]`: the place that the following keys belong to."""
        several = self.accept("[")
        parts = self.key()
        place: Place = ()
        for number, part in enumerate(parts[:_DEEPEST], start=1):
            place += (_name(part),)
            self.note(place, part.line)
            if several and number == len(parts):
                self.arrays[place] = self.arrays.get(place, -1) + 1
            if place in self.arrays:
                place += (self.arrays[place],)
                self.note(place, part.line)
        self.at += 2 if several else 1
        return place

    def pair(self, table: Place) -> None:
        """`a.b = value`, at the top level or in an inline table."""
        place = table
        for part in self.key()[:_DEEPEST]:
            place += (_name(part),)
            self.note(place, part.line)
        self.accept("=")
        self.value(place)

    def value(self, place: Place) -> None:
        if self.accept("["):
            self.skip_newlines()
            index = 0
            while not self.accept("]"):
                self.note((*place, index), self.tokens[self.at].line)
                self.value((*place, index))
                self.skip_newlines()
                self.accept(",")
                self.skip_newlines()
                index += 1
        elif self.accept("{"):
            while not self.accept("}"):
                self.pair(place)
                self.accept(",")
        else:
            while self.peek() not in ("\n", ",", "]", "}"):  # 1.5 and some dates are several tokens
                self.at += 1


def find_lines(text: str) -> dict[Place, int]:
    """The line, from 1, of each key, table and array element of a valid TOML text."""
    scanner = _Scanner(_tokens(text))
    table: Place = ()
    while scanner.at < len(scanner.tokens):
        if scanner.accept("\n"):
            continue
        if scanner.accept("["):
            table = scanner.header()
        else:
            scanner.pair(table)
    return scanner.lines


def _tokens(text: str) -> list[_Token]:
    tokens, line = [], 1
    for match in _TOKEN.finditer(text + "\n"):
        kind = match.lastgroup or ""
        if kind != "skip":
            tokens.append(_Token(kind, match.group(), line))
        line += match.group().count("\n")
    return tokens


def _name(part: _Token) -> str:
    if part.kind == "string":
        return str(tomllib.loads(f"key = {part.text}")["key"])
    return part.text
