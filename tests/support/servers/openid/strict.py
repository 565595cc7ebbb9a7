"""An OpenID provider whose answers a test bends; the rest is as strict as the protocol."""

import base64
import hashlib
import json
import secrets
import time
from urllib.parse import parse_qs, parse_qsl, quote_plus, urlencode, urlsplit

import jwt

from support.servers.openid import SECRET
from support.servers.thread_server import Handler, HandlerServer
from support.servers.token_issuer import b64, jwk, key


class StrictProvider(HandlerServer):
    """
    `with StrictProvider() as provider:`; `document` and `claims` are changes of what is right, None takes a member away.

    `bend(path, answer)` may return another status and body.
    """

    def __init__(self):
        self.reset()
        provider = self

        class Endpoint(Handler):
            def do_GET(self):
                self.reply(*provider.answer(urlsplit(self.path).path, self.headers, {}))

            def do_POST(self):
                form = dict(parse_qsl(self.body().decode()))
                self.reply(*provider.answer(self.path, self.headers, form))

            def reply(self, status, body):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                away = {"Location": f"{provider.url}elsewhere"}
                self.send(status, data, away if 300 <= status < 400 else None)

        super().__init__(Endpoint)
        self.url += "/"

    def reset(self):
        self.keys = [jwk("es256-1", "ES256")]
        self.document, self.claims, self.person = {}, {}, {"org": "acme", "groups": ["evaluators"]}
        self.token = sign
        self.bend = lambda path, answer: answer
        self.looks, self._codes = [], {}

    def approve(self, address, **more):
        """What the browser comes back with, after the person has agreed: the parameters of the answer."""
        parts = urlsplit(address)
        asked = dict(parse_qsl(parts.query, strict_parsing=True))
        assert f"{parts.scheme}://{parts.netloc}/" == self.url
        assert asked["response_type"] == "code"
        assert asked["client_id"] == "assay"
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(20)
        self._codes[code] = asked
        return {"code": code, "state": asked["state"], "iss": self.url} | more

    def answer(self, path, headers, form):
        self.looks.append(path)
        return self.bend(path, self._answer(path, headers, form))

    def _answer(self, path, headers, form):
        match path:
            case "/.well-known/openid-configuration":
                return 200, self._without_none({
                    "issuer": self.url, "authorization_endpoint": f"{self.url}auth?a=1", "token_endpoint": f"{self.url}token",
                    "jwks_uri": f"{self.url}keys", "userinfo_endpoint": f"{self.url}me", "end_session_endpoint": f"{self.url}out",
                    "code_challenge_methods_supported": ["plain", "S256"], "authorization_response_iss_parameter_supported": True,
                } | self.document)  # fmt: skip
            case "/keys":
                return 200, {"keys": self.keys}
            case "/me":
                return (
                    (200, {"sub": "ann@example.org"} | self.person) if headers["Authorization"] else (401, {})
                )
            case "/token":
                return self._redeem(headers, form)
            case _:
                return 404, {}

    def _redeem(self, headers, form):
        pair = f"{quote_plus('assay')}:{quote_plus(SECRET)}"
        basic = headers["Authorization"] == f"Basic {base64.b64encode(pair.encode()).decode()}"
        posted = (form.get("client_id"), form.get("client_secret")) == ("assay", SECRET)
        if not (basic or posted):
            return 401, {"error": "invalid_client"}
        asked = self._codes.pop(form["code"], None)
        proof = b64(hashlib.sha256(form["code_verifier"].encode()).digest())
        if asked is None or (proof, form["redirect_uri"]) != (asked["code_challenge"], asked["redirect_uri"]):
            return 400, {"error": "invalid_grant", "error_description": "content of the provider"}
        now = int(time.time())
        claims = {
            "iss": self.url, "sub": "ann@example.org", "aud": "assay", "nonce": asked["nonce"], "iat": now, "exp": now + 300,
        }  # fmt: skip
        token = self.token(self._without_none(claims | self.claims))
        return 200, {"access_token": "an access token", "token_type": "Bearer", "id_token": token}

    def _without_none(self, members):
        return {name: value for name, value in members.items() if value is not None}


def sign(claims, algorithm="ES256", number=0, **header):
    return jwt.encode(
        claims, key(algorithm, number), algorithm, headers={"kid": f"{algorithm.lower()}-1"} | header
    )


def fragment_of(answer):
    """The address in the fragment that the page gets, and its parameters."""
    assert answer.status_code == 303, answer.text
    path, _, query = answer.headers["location"].partition("#")[2].partition("?")
    return path, parse_qs(query)


def walk(client, provider, **more):
    """Sign in as a browser does: the answer to the browser that is back."""
    redirect = client.get("/sign-in")
    assert redirect.status_code == 303, redirect.text
    return client.get(
        f"/sign-in/callback?{urlencode(provider.approve(redirect.headers['location'], **more))}"
    )
