"""secret_leak: the text has a credential, known by its format, by the name beside it, or by the sentence around it."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from assay.checks.safety.detector import Detection, Detector, texts_in
from assay.checks.safety.secret_formats import entropy, find_formats, is_placeholder, is_random, is_uuid
from assay.ports import Services
from assay.protocol.secret_patterns import find_secrets

Span = tuple[int, int, str]


class SecretLeak(Detector):
    type = "secret_leak"
    waits = False
    kind = "secret-leak"
    severity = "critical"
    task_arguments = {"text": "$.output.value"}  # noqa: RUF012

    text: Any

    def detections(self, services: Services) -> Sequence[Detection]:
        detections: list[Detection] = []
        name = where_of_name = ""
        for where, text in texts_in("text", self.text):
            if where.endswith("~"):
                name, where_of_name = text, where[:-1]
            rule = is_named_secret(name, text) if where == where_of_name else None
            spans = [(0, len(text), rule)] if rule else secret_spans(text)
            detections += (Detection(where, start, end, rule) for start, end, rule in spans)
        return detections


def secret_spans(text: str) -> list[Span]:
    """Start, end and rule of every secret, from left to right, without overlaps: the first of two wins."""
    spans: list[Span] = []
    for span in sorted((*format_spans(text), *find_assignments(text))):
        if not spans or span[0] >= spans[-1][1]:
            spans.append(span)
    return spans


def format_spans(text: str) -> list[Span]:
    """Start, end and rule of every secret that has a format of its own, in any order."""
    spans = [
        (start, end, rule)
        for start, end, rule in find_formats(text)
        if not is_placeholder(text[start:end]) and entropy(text[start : min(end, start + 200)]) >= 2.5
    ]
    return [*_redacted(text), *spans]


def _redacted(text: str) -> Iterator[Span]:
    """
    The formats that redaction hides, without those that are not secret: public keys, placeholders, words with hyphens.
    """
    for found in find_secrets(text):
        value = text[found.first : min(found.last, found.first + 4000)]
        if _is_plausible(found.name, value):
            yield found.first, found.last, found.name


def _is_plausible(name: str, value: str) -> bool:
    if name == "private-key":
        body = value[value.find("KEY-----") + 8 :]
        return (
            len([one for one in body[:400] if one.isalnum() or one in "+/="]) >= 40 and "..." not in body[:80]
        )
    if name == "password":
        return is_password(value, quoted=True) and value.lower() not in _DEFAULTS
    if value.startswith("pk_"):  # Stripe's publishable keys belong into pages
        return False
    if name == "basic":
        return not is_placeholder(value) and (value.endswith("=") or is_random(value))
    return is_random(value, 10) if name != "aws-key" else not is_placeholder(value) and entropy(value) >= 2.5


_DEFAULTS = frozenset(("passwd", "postgres", "secret", "password", "guest", "example", "password123"))


# Credentials that a name or a sentence gives away: `password=…`, `api_key: …`, "the password is …", command
# lines, cookies.

_PASSWORDS = (
    r"passw(?:or)?ds?|passwd|passphrase|passcode|pass[-_]?code|\bpwd|_pwd|db_?pass|smtp_?pass|_pass(?![a-z_])|\bpass(?=\s?[:=])|passwort|kennwort|contrase(?:ñ|n)a|mot de passe"
    r"|\bsenha|wachtwoord|lösenord|adgangskode|has(?:ł|l)o\b|\bşifre|парол[ья]|密码|密碼|口令|パスワード|暗証番号|비밀번호|كلمة (?:السر|المرور)|סיסמ[הת]|\bpasscode"
)
_KEYS = (
    r"secret|credential|(?:api|access|account|auth|private|signing|encryption|master|admin|service|storage|subscription|deploy|license|app|sharedaccess)"
    r"[-_ ]?key|apikey|(?:auth|api|access|refresh|session|bearer|bot|deploy|admin|service|security|id|user|mail|personal|app)?[-_ ]?token"
    r"|ключ|密钥|密鑰|秘钥|clave secreta|clé secrète|schlüssel|_auth\b"
)
_NAME = re.compile(f"(?P<password>{_PASSWORDS})|(?P<key>{_KEYS})", re.IGNORECASE)
_NOT_SECRET = re.compile(
    r"(?:public|publishable|csrf|xsrf|next|page|continuation|cursor|idempotency|sync|max|num|prompt|completion|total|input|output|cached|design)[-_ ]?\Z",
    re.IGNORECASE,
)
_TAIL_NOT_SECRET = re.compile(
    r"[-_ ]?(?:s\b|type|izer|name|ref|path|file|hash|digest|algorithm|policy|count|limit|length|field|label|hint|expir|url|uri|arn|version|id\b|key_?id|manager|reset|s?_used)",
    re.IGNORECASE,
)
# After the name: an assignment in code, configuration, a header, XML or a table, and then the value.
_ASSIGNED = re.compile(
    r"""(?:[\w-]|\.(?=\w)){0,24}["'`\]]{0,3}(?:\s{0,3}(?::=|=>|==?|:|\|)\s{0,3}|\s{1,3}value\s?=\s?|>\s{0,3}|,?\s{0,3}(?=["'`]))
        (?P<quote>b?["'`«“‘「]{1,3}\s?)?(?P<value>[!-~]{4,600})""",
    re.VERBOSE,
)
# In a sentence: up to some words, a verb of being, and then the value.
_SAID = re.compile(
    r"""[^\n.!?=:@`"<>|/]{0,48}?(?:'s\s|\b(?:is|was|are|lautet|ist|es|est|è|é|er|jest|to|это|set\ to|zu)\b|является|[是为為はは=:：—])[:：]?\s{0,3}
        (?P<quote>[*"'`«“‘「]{1,3}\s?)?(?P<value>[!-~]{4,600})""",
    re.VERBOSE,
)
_END = re.compile(r"""["'`,;<>|»”’)\]}]|&(?:\w+=|quot;)|\\[nr"]""")
_WORDS = frozenset(
    [
        "password",
        "passwort",
        "secret",
        "string",
        "required",
        "optional",
        "none",
        "null",
        "true",
        "false",
        "hidden",
        "undefined",
        "boolean",
        "token",
        "invalid",
        "incorrect",
        "missing",
        "unknown",
        "empty",
        "default",
        "disabled",
        "enabled",
        "encrypted",
        "hashed",
        "stored",
        "wrong",
        "correct",
        "expired",
        "valid",
        "weak",
        "strong",
        "changed",
        "reset",
        "private",
        "public",
        "protected",
        "confidential",
        "forgotten",
        "masked",
        "redacted",
        "changeme",
        "letters",
        "text",
        "varchar",
        "integer",
        "number",
        "object",
        "admin",
        "administrator",
        "user",
        "username",
        "prompt",
        "input",
        "value",
        "secure",
    ]
)
_CODE = re.compile(
    r"[A-Za-z_][\w.]*[(\[]|\w+\.\w+\.\w+\Z|(?:os|process|env|config|self|this|settings|request|form|secrets|var|args|opts|ctx)[.$\[]|[$%@&]\w|[~.]?/|https?:|[a-z]+://|!(?:Ref|Sub)|--?[a-z]"
)
_SEED = re.compile(r"(?:[a-z]{3,8}[\s,]{1,3}){11,23}[a-z]{3,8}")
_SEED_NAME = re.compile(
    r"(?:seed|recovery|mnemonic|backup|wallet)[- ](?:phrase|words|seed)|mnemonic", re.IGNORECASE
)
_COMMANDS = re.compile(
    r"""(?:mysql(?:dump)?\b[^\n|]{0,80}?\s-p|sshpass\s+-p\s*|docker\s+login\b[^\n]{0,80}?\s-p\s+|--password[=\s]|-pass\s+pass:|\s/p:
        |curl\b[^\n|]{0,120}?\s(?:-u|--user)\s*["']?[\w.@-]{1,40}:|\blogin\s+\S{1,60}\s+password\s+)["']?(?P<value>[!-~]{4,200})""",
    re.VERBOSE,
)
_COOKIE = re.compile(r"cookie[\"']?\s?:", re.IGNORECASE)
_SESSION = re.compile(
    r"(?<!\w)\w{0,20}(?:sess|sid|auth|token|jwt)\w{0,20}=(?P<value>[\w%.~+/-]{16,600})", re.IGNORECASE
)
NEAR = 16  # characters between two names: a sentence then belongs to the second


def find_assignments(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and rule of every value that a name or a sentence marks as a credential."""
    later = None
    for name in reversed(list(_NAME.finditer(text))):
        yield from _after(text, name, alone=later is None or later - name.end() > NEAR)
        later = name.start()
    for match in _COMMANDS.finditer(text):
        value = _cut(match["value"], False)
        if is_password(value, quoted=True):
            yield match.start("value"), match.start("value") + len(value), "command-password"
    if _COOKIE.search(text):
        for match in _SESSION.finditer(text):
            if is_random(match["value"]):
                yield match.start("value"), match.end("value"), "session-cookie"
    for name in _SEED_NAME.finditer(text):
        match = _SEED.search(text, name.end(), name.end() + 240)
        if match is not None and len(set(match[0].split())) > 9:
            yield match.start(), match.end(), "seed-phrase"


def is_named_secret(name: str, value: str) -> str | None:
    """The rule, if the member `name` of an object says that this value is a credential and its form agrees."""
    match = _NAME.search(name[:200])
    if match is None or not value or any(one.isspace() for one in value[:300]):
        return None
    if _NOT_SECRET.search(name[: match.start()]) or _TAIL_NOT_SECRET.match(name, match.end()):
        return None
    return _rule(match, value[:600], quoted=True)


def _after(text: str, name: re.Match[str], *, alone: bool) -> Iterator[tuple[int, int, str]]:
    for pattern in (_ASSIGNED, _SAID) if alone else (_ASSIGNED,):
        match = pattern.match(text, name.end())
        if match is None:
            continue
        value = _cut(match["value"], bool(match["quote"]))
        rule = _rule(name, value, quoted=bool(match["quote"]) and pattern is _ASSIGNED)
        if rule is not None and not _is_other(text, name):
            yield match.start("value"), match.start("value") + len(value), rule
            return


def _is_other(text: str, name: re.Match[str]) -> bool:
    """Whether the words around the name say that it is not a secret: `next_token`, `token_type`."""
    before = _NOT_SECRET.search(text, max(0, name.start() - 14), name.start())
    return before is not None or _TAIL_NOT_SECRET.match(text, name.end()) is not None


def _rule(name: re.Match[str], value: str, *, quoted: bool) -> str | None:
    if _CODE.match(value) or is_placeholder(value):
        return None
    if name["password"]:
        return "password" if is_password(value, quoted=quoted) else None
    return "named-key" if is_random(value) or is_uuid(value) or _is_short_key(value) else None


def _cut(value: str, quoted: bool) -> str:
    """The value without what follows it: the closing quote, or the punctuation of the sentence."""
    end = _END.search(value)
    return (value[: end.start()] if end else value).rstrip("" if quoted and end else ".,:;?*")


def _is_short_key(value: str) -> bool:
    return (
        10 <= len(value) < 16
        and len(_classes(value)) >= 3
        and "digit" in _classes(value)
        and entropy(value) >= 3
    )


def _classes(value: str) -> set[str]:
    return {
        "digit" if one.isdigit() else "upper" if one.isupper() else "lower" if one.islower() else "symbol"
        for one in value
    }


def is_password(value: str, *, quoted: bool) -> bool:
    """Whether a value looks like a password that a person or a generator chose, and not like a word of a sentence."""
    if (
        not 6 <= len(value) <= 200
        or is_placeholder(value)
        or value.lower().strip("-_.!") in _WORDS
        or _CODE.match(value)
    ):
        return False
    classes = _classes(value)
    if "digit" in classes:
        return len(classes) > 1 or len(value) <= 12
    if value.isalpha():
        return quoted or (len(value) >= 10 and value[1:-1] != value[1:-1].lower() and value != value.upper())
    return len(classes) >= 3 or value.count("-") >= 3
