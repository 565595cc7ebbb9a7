"""A policy of tool calls: data of the operator, compiled to predicates over a call (docs/safety.md)."""

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from assay import jsonpath
from assay.checks.safety.detector import Detection, texts_in
from assay.errors import MalformedPath, PathFault, UsageError
from assay.patterns.bounded_search import matches_wildcard
from assay.ports.config import SafetyPolicy

LONGEST_WORD = 4_096  # characters of a word that may be a path
_URL_HOST = re.compile(r"[a-z][a-z0-9+.-]{0,20}:[/\\]{2}([^\s/\\?#\"'<>`]{1,300})", re.IGNORECASE)
_BARE_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+\.?(:\d{1,5})?", re.IGNORECASE)
_WORD = re.compile(r"[^\s\"'`,;<>|()=]+")
_COMMANDS = re.compile(r"[;|&\n`]+|\$\(")
_PREFIXES = frozenset({"sudo", "env", "exec", "nohup", "time", "command"})


class CompiledRule(NamedTuple):
    name: str
    calls: jsonpath.Query
    after: jsonpath.Query | None
    max: int | None


class CompiledPolicy(NamedTuple):
    policy: SafetyPolicy
    rules: tuple[CompiledRule, ...]


def compile_policy(document: Any) -> CompiledPolicy:
    """The policy of a JSON document. A ValueError says what is wrong, and where."""
    return _compile(msgspec.json.encode(document))


def policy_document(policy: SafetyPolicy, place: str) -> dict[str, Any] | None:
    """
    The policy of an operator as JSON; None if it says nothing. A bad path is a UsageError that begins with `place`.
    """
    document = msgspec.to_builtins(policy)
    try:
        compile_policy(document)
    except ValueError as wrong:
        raise UsageError(f"{place}{wrong}") from None
    return document or None


@lru_cache(maxsize=16)
def _compile(document: bytes) -> CompiledPolicy:
    try:
        policy = msgspec.json.decode(document, type=SafetyPolicy)
    except msgspec.ValidationError as wrong:
        raise ValueError(str(wrong).replace("Expected", "expected").replace("Object", "an object")) from None
    rules: list[CompiledRule] = []
    for at, rule in enumerate(policy.rules):
        queries: list[jsonpath.Query | None] = []
        for name in ("calls", "after"):
            text = getattr(rule, name)
            try:
                queries.append(None if text is None else jsonpath.compile(text))
            except MalformedPath as wrong:
                raise ValueError(f"rules[{at}].{name}: {wrong}") from None
        assert queries[0] is not None
        rules.append(CompiledRule(rule.name, queries[0], queries[1], rule.max))
    return CompiledPolicy(policy, tuple(rules))


def policy_detections(compiled: CompiledPolicy, calls: list[Any]) -> Iterator[Detection]:
    """What breaks the policy, call by call."""
    for at, call in enumerate(calls):
        yield from _call_detections(compiled.policy, f"tool_calls[{at}]", call)
    for rule in compiled.rules:
        selected, satisfied = 0, False
        for at, call in enumerate(calls):
            if _selects(rule.calls, call):
                selected += 1
                broken = not satisfied if rule.after is not None else True
                if broken and (rule.max is None or selected > rule.max):
                    yield Detection(f"tool_calls[{at}].tool", 0, len(call["tool"]), f"policy:{rule.name}")
            if rule.after is not None and call.get("outcome", "ok") == "ok" and _selects(rule.after, call):
                satisfied = True


def _selects(query: jsonpath.Query, call: Any) -> bool:
    try:
        return bool(query.values([call]))
    except PathFault as fault:
        raise ValueError(f"a rule of the policy: {fault}") from None


def _call_detections(policy: SafetyPolicy, where: str, call: Any) -> Iterator[Detection]:
    tool: str = call["tool"]
    if policy.allow_tools is not None and not _matches(tool, policy.allow_tools):
        yield Detection(f"{where}.tool", 0, len(tool), "policy:allow-tools")
    if _matches(tool, policy.deny_tools):
        yield Detection(f"{where}.tool", 0, len(tool), "policy:deny-tools")
    tables = [
        (words, matches, patterns, rule)
        for words, matches, patterns, rule in (
            (_hosts, _is_host, policy.deny_hosts, "policy:deny-hosts"),
            (_paths, _is_below, policy.deny_paths, "policy:deny-paths"),
            (_commands, str.__eq__, policy.deny_commands, "policy:deny-commands"),
        )
        if patterns
    ]
    for place, text in texts_in(f"{where}.arguments", call.get("arguments")) if tables else ():
        if place.endswith("~"):  # a key
            continue
        for words, matches, patterns, rule in tables:
            for start, end, word in words(text):
                if any(matches(word, pattern) for pattern in patterns):
                    yield Detection(place, start, end, rule)


def _matches(tool: str, patterns: tuple[str, ...]) -> bool:
    return any(matches_wildcard(tool, pattern) for pattern in patterns)


def _hosts(text: str) -> Iterator[tuple[int, int, str]]:
    """The hosts of addresses in a text; a text that is a host name as a whole."""
    if _BARE_HOST.fullmatch(text):
        yield 0, len(text), _host(text)
    for match in _URL_HOST.finditer(text):
        yield match.start(1), match.end(1), _host(match[1])


def _host(authority: str) -> str:
    host = authority.rpartition("@")[2]
    return re.sub(r":\d*\Z", "", host).rstrip(".").lower()


def _is_host(host: str, pattern: str) -> bool:
    pattern = pattern.lower()
    return matches_wildcard(host, pattern) or host.endswith(f".{pattern}")


def _paths(text: str) -> Iterator[tuple[int, int, str]]:
    """The words of a text that may be a path, without `..` and doubled slashes; and the text as a whole."""
    if len(text) <= LONGEST_WORD and " " in text:
        yield 0, len(text), _path(text)
    for match in _WORD.finditer(text):
        if match.end() - match.start() <= LONGEST_WORD:
            yield match.start(), match.end(), _path(match[0])


def _path(text: str) -> str:
    path = re.sub(r"\Afile://[^/]*", "", text.replace("\\", "/"), flags=re.IGNORECASE)
    return re.sub(r"\A/+", "/", posixpath.normpath(path))


def _is_below(path: str, pattern: str) -> bool:
    return matches_wildcard(path, pattern) or matches_wildcard(path, f"{pattern.rstrip('/')}/*")


def _commands(text: str) -> Iterator[tuple[int, int, str]]:
    """The first word of each command in a text, without its folder."""
    start = 0
    for end in (*(match.span() for match in _COMMANDS.finditer(text)), (len(text), len(text))):
        for match in _WORD.finditer(text, start, end[0]):
            name = match[0].replace("\\", "/").rpartition("/")[2]
            followed = text[match.end() : match.end() + 1] == "="
            if not followed and name not in _PREFIXES:
                yield match.start(), match.end(), name
                break
        start = end[1]
