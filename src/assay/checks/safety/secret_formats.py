"""
Formats of credentials that name themselves: a literal part finds a candidate, a bounded pattern decides.

The formats of `protocol/secret_patterns.py`, which redaction uses, are not repeated here. A row has the rule, the
literal part and the pattern.
"""

import re
from collections import Counter
from collections.abc import Iterator
from math import log2

_ID = r"[A-Za-z0-9_-]"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SEPARATORS = re.compile(r"[-_./:]")
_UUID_ONLY = re.compile(_UUID, re.IGNORECASE)

FORMATS: tuple[tuple[str, str, str], ...] = (
    ("google-oauth", "GOCSPX-", rf"GOCSPX-{_ID}{{20,40}}"),
    ("google-oauth", "ya29.", rf"ya29\.{_ID}{{20,400}}"),
    ("google-oauth", "1//0", rf"1//0{_ID}{{30,120}}"),
    ("firebase-key", ":APA91b", rf"{_ID}{{8,16}}:APA91b{_ID}{{100,160}}"),
    ("gitlab-token", "gl", rf"gl(?:rt|dt|ptt|cbt|soat|ft|imt|agent|oas)-{_ID}{{20,80}}"),
    ("slack-token", "xapp-", r"xapp-\d-[A-Z0-9]{6,14}-\d{8,16}-[a-z0-9]{30,80}"),
    ("slack-token", "xoxe.", rf"xoxe\.xox[bp]-{_ID}{{30,300}}"),
    ("slack-webhook", "hooks.slack.com/", r"(?:https?://)?hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9+/]{24,120}"),
    ("discord-webhook", "/api/webhooks/", rf"https?://[a-z.]{{0,10}}discord(?:app)?\.com/api/webhooks/\d{{15,22}}/{_ID}{{50,90}}"),
    ("teams-webhook", ".webhook.office.com/", rf"https://[a-z0-9-]{{1,50}}\.webhook\.office\.com/webhookb2/{_UUID}@{_UUID}/IncomingWebhook/[a-z0-9]{{32}}/{_UUID}"),
    ("discord-token", ".", rf"[MNO][A-Za-z\d_-]{{23,27}}\.{_ID}{{6}}\.{_ID}{{27,42}}"),
    ("telegram-token", ":AA", rf"\d{{8,10}}:AA{_ID}{{32,34}}"),
    ("stripe-key", "whsec_", r"whsec_[A-Za-z0-9+/=]{24,80}"),
    ("stripe-key", "k_prod_", r"[rs]k_prod_[A-Za-z0-9]{16,120}"),
    ("razorpay-key", "rzp_", r"rzp_(?:live|test)_[A-Za-z0-9]{14,24}"),
    ("paypal-token", "access_token$", r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    ("plaid-token", "access-", rf"access-(?:production|development|sandbox)-{_UUID}"),
    ("square-token", "sq0", rf"sq0(?:atp|csp|idp)-{_ID}{{22,43}}"),
    ("square-token", "EAAA", rf"EAAA[A-Za-z]{_ID}{{56,64}}"),
    ("facebook-token", "EAA", r"EAA[A-Z][A-Za-z0-9]{80,250}"),
    ("twilio-key", "SK", r"SK[0-9a-f]{32}"),
    ("sendgrid-key", "SG.", rf"SG\.{_ID}{{16,24}}\.{_ID}{{32,48}}"),
    ("mailgun-key", "key-", r"key-[0-9a-f]{32}"),
    ("mailchimp-key", "-us", r"[0-9a-f]{32}-us\d{1,2}"),
    ("brevo-key", "xkeysib-", r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    ("pypi-token", "pypi-", rf"pypi-AgE{_ID}{{50,400}}"),
    ("rubygems-key", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    ("nuget-key", "oy2", r"oy2[a-z0-9]{43}"),
    ("docker-token", "dckr_", rf"dckr_(?:pat|oat)_{_ID}{{24,60}}"),
    ("artifactory-key", "AKCp", r"AKCp[A-Za-z0-9]{10,80}"),
    ("crates-token", "cio", r"cio[A-Za-z0-9]{32}"),
    ("openrouter-key", "sk-or-", r"sk-or-v\d-[0-9a-f]{40,80}"),
    ("groq-key", "gsk_", r"gsk_[A-Za-z0-9]{40,60}"),
    ("xai-key", "xai-", r"xai-[A-Za-z0-9]{60,90}"),
    ("perplexity-key", "pplx-", r"pplx-[A-Za-z0-9]{40,60}"),
    ("replicate-token", "r8_", r"r8_[A-Za-z0-9]{37,40}"),
    ("langsmith-key", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    ("pinecone-key", "pcsk_", rf"pcsk_{_ID}{{40,80}}"),
    ("tavily-key", "tvly-", r"tvly-[A-Za-z0-9-]{20,60}"),
    ("fireworks-key", "fw_", r"fw_[A-Za-z0-9]{22,40}"),
    ("elevenlabs-key", "sk_", r"sk_[0-9a-f]{48}"),
    ("shopify-token", "shp", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    ("digitalocean-token", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    ("databricks-token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),
    ("vault-token", "hv", rf"hv[sbr]\.{_ID}{{24,300}}"),
    ("terraform-token", ".atlasv1.", rf"[A-Za-z0-9]{{14}}\.atlasv1\.{_ID}{{60,70}}"),
    ("pulumi-token", "pul-", r"pul-[0-9a-f]{40}"),
    ("postman-key", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    ("grafana-token", "gl", r"gl(?:sa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|c_[A-Za-z0-9+/=]{32,400})"),
    ("sentry-token", "sntry", r"sntry[su]_[A-Za-z0-9+/=_-]{60,300}"),
    ("newrelic-key", "NRAK-", r"NRAK-[A-Z0-9]{27}"),
    ("linear-key", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,64}"),
    ("notion-token", "ntn_", r"ntn_[A-Za-z0-9]{40,50}"),
    ("notion-token", "secret_", r"secret_[A-Za-z0-9]{43}"),
    ("airtable-token", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("atlassian-token", "AT", r"AT(?:ATT3x[A-Za-z0-9_=-]{60,220}|BB[A-Za-z0-9]{24,36})"),
    ("dropbox-token", "sl.", rf"sl\.{_ID}{{100,200}}"),
    ("doppler-token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,70}"),
    ("planetscale-token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.-]{32,64}"),
    ("supabase-key", "sb", rf"sb(?:p_[0-9a-f]{{40}}|_secret_{_ID}{{20,60}})"),
    ("netlify-token", "nfp_", r"nfp_[A-Za-z0-9]{36}"),
    ("age-key", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    ("dynatrace-token", "dt0", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    ("easypost-key", "EZ", r"EZ[AT]K[A-Za-z0-9]{54}"),
    ("tailscale-key", "tskey-", r"tskey-[a-z]{2,10}-[A-Za-z0-9]{8,24}-[A-Za-z0-9]{20,40}"),
    ("figma-token", "fig", rf"fig[dou]_{_ID}{{36,60}}"),
    ("contentful-token", "CFPAT-", rf"CFPAT-{_ID}{{40,50}}"),
    ("mapbox-token", "sk.eyJ", rf"sk\.eyJ{_ID}{{40,120}}\.{_ID}{{20,30}}"),
    ("onepassword-token", "ops_eyJ", r"ops_eyJ[A-Za-z0-9+/=_-]{200,1200}"),
    ("azure-client-secret", "Q~", r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,40}"),
    ("azure-sas", "sig=", r"[?&;]sig=[A-Za-z0-9%+/]{40,80}(?:%3[Dd]|=)"),
    ("hubspot-token", "pat-", rf"pat-(?:na|eu)\d-{_UUID}"),
    ("fly-token", "fm2_", r"fm2_[A-Za-z0-9+/=]{60,400}"),
    ("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{34,40}"),
    ("heroku-key", "HRKU-", rf"HRKU-{_ID}{{36,80}}"),
    ("circleci-token", "CCIPAT_", r"CCIPAT_[A-Za-z0-9]{20,24}_[0-9a-f]{40}"),
    ("sonar-token", "sq", r"sq[uap]_[0-9a-f]{40}"),
    ("buildkite-token", "bkua_", r"bkua_[0-9a-f]{40}"),
    ("resend-key", "re_", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,30}"),
    ("netlify-token", "nfp_", r"nfp_[A-Za-z0-9]{36,44}"),
    ("vercel-token", "vercel_blob_rw_", r"vercel_blob_rw_[A-Za-z0-9]{12,20}_[A-Za-z0-9]{24,40}"),
    ("nvidia-key", "nvapi-", rf"nvapi-{_ID}{{48,80}}"),
    ("fly-token", "fo1_", rf"fo1_{_ID}{{40,60}}"),
    ("typeform-token", "tfp_", rf"tfp_{_ID}{{40,60}}"),
    ("flutterwave-key", "FLWSECK", r"FLWSECK(?:_TEST)?-[a-zA-Z0-9]{12,40}"),
    ("pgp-key", "-----BEGIN PGP PRIVATE", r"-----BEGIN PGP PRIVATE KEY BLOCK-----[\sA-Za-z0-9+/=:.()\\-]{40,400}"),
    ("putty-key", "Private-Lines:", r"Private-Lines:\s{0,4}\d{1,3}\s{1,4}[A-Za-z0-9+/=]{32,80}"),
    ("password-hash", "$", r"\$(?:1|5|6|y|7)\$[A-Za-z0-9./$=,]{1,40}\$[A-Za-z0-9./]{22,120}|\$2[abxy]\$\d\d\$[A-Za-z0-9./]{53}|\$argon2id?\$[A-Za-z0-9+/=,$]{40,200}"),
    ("oracle-login", "jdbc:oracle:", r"jdbc:oracle:\w{2,6}:[\w.]{1,40}/[^\s/@]{4,60}@"),
)  # fmt: skip

_NOT_WORD = r"(?<![A-Za-z0-9])"
_NO_MORE = r"(?![A-Za-z0-9])"
_PATTERNS = tuple(
    (
        rule,
        literal,
        pattern.replace("\\", "").startswith(literal),
        re.compile((_NOT_WORD if pattern[0] not in r"-\[" else "") + f"(?:{pattern})" + _NO_MORE, re.ASCII),
    )
    for rule, literal, pattern in FORMATS
)

PLACEHOLDER = re.compile(
    r"example|placeholder|your[-_ ]?|change[-_]?me|replace|insert|dummy|sample|redacted|hidden|masked|fixme|foobar|todo|goes[-_]?here"
    r"|x{4}|\*{3}|\.{3}|…|•{2}|<|>|\$\{|\$\(|\{\{|\}\}|%\(|0{8}|1234567890|abcdefghij|deadbeef|(.)\1{7}",
    re.IGNORECASE,
)
PUBLIC_SAMPLES = (  # published in the documentation of their owners
    "4eC39HqLyjWDarjtT1zdp7dc",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9l",
    "wJalrXUtnFEMI",
    "IOSFODNN7",
)


def find_formats(text: str) -> Iterator[tuple[int, int, str]]:
    """
    Start, end and rule of every credential that names itself. The work is linear: each pattern reads a bounded number
    of characters.
    """
    for rule, literal, at_start, pattern in _PATTERNS:
        at = text.find(literal)
        if at >= 0 and not at_start:
            yield from ((match.start(), match.end(), rule) for match in pattern.finditer(text))
            continue
        while at >= 0:
            match = pattern.match(text, at)
            if match is not None:
                yield at, match.end(), rule
            at = text.find(literal, at + 1 if match is None else match.end())


def entropy(text: str) -> float:
    """Shannon's entropy in bits per character."""
    size = len(text)
    return -sum(count / size * log2(count / size) for count in Counter(text).values()) if size else 0.0


def is_placeholder(value: str) -> bool:
    return PLACEHOLDER.search(value[:400]) is not None or any(sample in value for sample in PUBLIC_SAMPLES)


def is_random(value: str, least: int = 16) -> bool:
    """Whether a value looks like a generated key: long, of mixed characters, not words and not a placeholder."""
    core = value.strip("=")
    if len(core) < least or is_placeholder(value):
        return False
    words = [piece for piece in _SEPARATORS.split(core[:200]) if piece]
    if len(words) >= 4 and sum(piece.isalpha() and piece.islower() for piece in words) >= 0.7 * len(words):
        return False  # a name of several words, such as a path or an identifier
    digits = sum(one.isdigit() for one in core)
    if not digits or digits == len(core):
        return False
    return entropy(core[:200]) >= (2.8 if len(core) < 20 else 3.1)


def is_uuid(value: str) -> bool:
    return _UUID_ONLY.fullmatch(value) is not None
