"""A transport on aiohttp: the same behaviour as the SDK's with a tenth of its CPU time, and with proxies."""

import io

import aiohttp  # an extra: only `open_transport` imports this file
from yarl import URL

from assay.backends.models.transport import (
    OPENAI,
    ConnectionLost,
    HttpAnswer,
    Outcome,
    TooLargeReply,
    proxy_of,
)
from assay.ports import Provider

LONG = 1 << 20


class AiohttpTransport:
    def __init__(self, provider: Provider, max_bytes: int) -> None:
        self._limit = max_bytes
        self._base = (provider.base_url or OPENAI).rstrip("/")
        self._urls: dict[str, URL] = {}  # read once: there are two of them
        self._proxy = proxy_of(self._base)  # its own `trust_env` reads ~/.netrc before every request
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if provider.api_key:
            headers["Authorization"] = f"Bearer {provider.api_key.reveal()}"
        self._session = aiohttp.ClientSession(
            headers=headers,
            skip_auto_headers=["Accept-Encoding"],  # what is read is what is counted
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),  # the line keeps the time
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def send(self, path: str, body: bytes) -> Outcome:
        try:
            url = self._urls.get(path) or self._urls.setdefault(path, URL(self._base + path))
            # it warns of long bytes, and takes a file of them without a word
            data = body if len(body) < LONG else io.BytesIO(body)
            async with self._session.post(
                url, data=data, allow_redirects=False, proxy=self._proxy
            ) as response:
                parts: list[bytes] = []
                size = 0
                while part := await response.content.readany():
                    size += len(part)
                    if size > self._limit:
                        return TooLargeReply(self._limit)
                    parts.append(part)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return HttpAnswer(response.status, headers, b"".join(parts))
        except (aiohttp.ClientError, OSError) as lost:
            return ConnectionLost(f"{type(lost).__name__}: {lost}" if str(lost) else type(lost).__name__)

    async def close(self) -> None:
        await self._session.close()
