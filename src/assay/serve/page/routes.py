"""The routes of the page and of /v1/docs. Those of the files of the page are not part of the documented interface."""

from typing import Any

from assay.auth.one_time_code import CODE_PREFIX
from assay.serve.page import sign_in_routes
from assay.serve.page.built_files import show_asset, show_docs, show_page
from assay.serve.page.session_routes import TYPES, create_code, create_session, end_session, show_identity
from assay.serve.web.handler import ResponseSpec, RouteSpec
from assay.serve.web.openapi import components

FILES: list[RouteSpec] = [
    RouteSpec(
        method="GET",
        path="/",
        endpoint=show_page,
        scope=None,
        id="getPage",
        summary="The page",
        responses={200: ResponseSpec("The page.", media="text/html")},
        hidden=True,
    ),
    RouteSpec(
        method="GET",
        path="/assets/{asset}",
        endpoint=show_asset,
        scope=None,
        id="getPageAsset",
        summary="A file of the page",
        responses={200: ResponseSpec("The file.")},
        hidden=True,
    ),
    RouteSpec(
        method="GET",
        path="/sign-in",
        endpoint=sign_in_routes.begin_sign_in,
        scope=None,
        id="beginSignIn",
        summary="Go to the OpenID provider",
        responses={303: ResponseSpec("The provider.")},
        hidden=True,
    ),
    RouteSpec(
        method="GET",
        path="/sign-in/callback",
        endpoint=sign_in_routes.finish_sign_in,
        scope=None,
        id="finishSignIn",
        summary="Come back from the OpenID provider",
        responses={303: ResponseSpec("The page.")},
        hidden=True,
    ),
]
DOCS: list[RouteSpec] = [
    RouteSpec(
        method="GET",
        path="/v1/docs",
        endpoint=show_docs,
        scope=None,
        id="getDocs",
        summary="Read this document as an HTML page, and try its requests",
        responses={200: ResponseSpec("An HTML page that loads nothing from elsewhere.", media="text/html")},
    ),
]
SESSIONS: list[RouteSpec] = [
    RouteSpec(
        method="GET",
        path="/v1/host/assay/sign-in",
        endpoint=sign_in_routes.show_offer,
        scope=None,
        id="getSignIn",
        summary="Get the OpenID provider at which the page signs in",
        responses={200: ResponseSpec("The provider, if there is one.", "SignInOffer")},
    ),
    RouteSpec(
        method="GET",
        path="/v1/host/assay/session",
        endpoint=show_identity,
        scope="",
        id="getSession",
        summary="Get the tenant and the scopes of this key",
        responses={200: ResponseSpec("What this key may do.", "Identity")},
    ),
    RouteSpec(
        method="POST",
        path="/v1/host/assay/session:exchange",
        endpoint=create_session,
        scope=None,
        id="createSession",
        summary="Exchange a one-time code for the key of a session of the page",
        body="CodeExchange",
        responses={201: ResponseSpec("The key of the session.", "SessionKey")},
        errors=(401,),
    ),
    RouteSpec(
        method="DELETE",
        path="/v1/host/assay/session",
        endpoint=end_session,
        scope="",
        id="endSession",
        summary="End the session of this key",
        responses={200: ResponseSpec("Whether a session ended.", "SessionEnd")},
    ),
    RouteSpec(
        method="POST",
        path="/v1/host/assay/session:code",
        endpoint=create_code,
        scope="",
        id="createSessionCode",
        summary="Create a one-time code that signs the page in with the tenant and the scopes of this key",
        responses={201: ResponseSpec("The code. It works once, for five minutes.", "SessionCode")},
    ),
]


def page_schemas() -> dict[str, Any]:
    schemas = components((*TYPES, *sign_in_routes.TYPES))
    schemas["CodeExchange"]["examples"] = [{"code": f"{CODE_PREFIX}{'x' * 43}"}]
    return schemas
