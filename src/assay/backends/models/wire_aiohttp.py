"""A wire on aiohttp: the same promises as the SDK's at a tenth of the processor time, for short and many calls."""

from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp  # an extra: only `open_wire` imports this file, when somebody asks
from yarl import URL

from assay.backends.models.wire import OPENAI, Answer, Flood, Lost, Outcome
from assay.ports import Provider


class AiohttpWire:
    def __init__(self, provider: Provider, max_bytes: int) -> None:
        self._limit = max_bytes
        self._base = (provider.base_url or OPENAI).rstrip("/")
        self._urls: dict[str, URL] = {}  # read once: there are two of them
        self._proxy = _proxy(self._base)
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
            async with self._session.post(
                url, data=body, allow_redirects=False, proxy=self._proxy
            ) as response:
                parts: list[bytes] = []
                size = 0
                while part := await response.content.readany():
                    size += len(part)
                    if size > self._limit:
                        return Flood(self._limit)
                    parts.append(part)
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, headers, b"".join(parts))
        except (aiohttp.ClientError, OSError) as lost:
            return Lost(f"{type(lost).__name__}: {lost}" if str(lost) else type(lost).__name__)

    async def close(self) -> None:
        await self._session.close()


def _proxy(base: str) -> str | None:
    """The environment's proxy for an address. aiohttp's own `trust_env` reads ~/.netrc before every request."""
    address = urlsplit(base)
    if proxy_bypass(address.hostname or ""):
        return None
    return getproxies().get(address.scheme)
