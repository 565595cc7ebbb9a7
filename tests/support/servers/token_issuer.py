"""An issuer of tokens on loopback: keys of each kind, a key set behind HTTP that can fail in every way, and a count of who asked."""

import base64
import contextlib
import hashlib
import hmac
import json
import time
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from assay.auth.jwt_settings import JwtSettings
from support.servers.thread_server import Handler, HandlerServer

AUDIENCE = "assay-tests"
MAKERS: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm, "EdDSA": OKPAlgorithm}


@cache
def key(algorithm, number=0) -> Any:
    """A private key, made once: number tells several of a kind apart."""
    if algorithm == "RS256":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return (
        ec.generate_private_key(ec.SECP256R1())
        if algorithm == "ES256"
        else ed25519.Ed25519PrivateKey.generate()
    )


def jwk(kid, algorithm, number=0, *, private=False, **more):
    whole = key(algorithm, number)
    members = MAKERS[algorithm].to_jwk(whole if private else whole.public_key(), as_dict=True)
    return {name: value for name, value in members.items() if name != "key_ops"} | {"kid": kid} | more


def b64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def by_hand(header, claims, sign):
    """A token as no library would make it."""
    parts = [b64(part if isinstance(part, bytes) else json.dumps(part).encode()) for part in (header, claims)]
    signed = ".".join(parts)
    return f"{signed}.{b64(sign(signed.encode()))}"


def mac(secret):
    return lambda data: hmac.new(secret, data, hashlib.sha256).digest()


class Issuer(HandlerServer):
    """`with Issuer() as issuer:`; `keys`, `status` and `body` say what the next look at its key set finds."""

    def __init__(self):
        self.keys = [jwk(f"{name.lower()}-1", name) for name in MAKERS]
        self.status, self.body, self.looks, self.away = 200, None, [], None
        issuer = self

        class KeySet(Handler):
            def do_GET(self):
                issuer.looks.append(self.path)
                data = json.dumps({"keys": issuer.keys}).encode() if issuer.body is None else issuer.body
                with contextlib.suppress(ConnectionError):
                    self.send(issuer.status, data, {"Location": issuer.away} if issuer.away else None)

        super().__init__(KeySet)
        self.url += "/"

    def trust(self, **more):
        settings = {"issuer": self.url, "audience": AUDIENCE, "jwks": f"{self.url}jwks.json"}
        return JwtSettings(**(settings | more))

    def claims(self, **changes):
        """Good ones, with changes; None takes one away."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "somebody@example.org",
            "exp": now + 600,
            "iat": now,
            "tenant": "acme",
            "scope": "evaluations:create evaluations:read evaluations:cancel",
        } | changes
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, algorithm="ES256", number=0, header=None, **changes):
        headers = {"kid": f"{algorithm.lower()}-1"} | (header or {})
        return jwt.encode(self.claims(**changes), key(algorithm, number), algorithm, headers=headers)
