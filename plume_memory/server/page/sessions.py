"""Who looks at the page: a key typed once becomes a session, and a session's forms carry a token.

Sessions are in this process's memory: after a restart, or on another replica, the key is typed again. The cookie holds
a random word and never the key. The token of a form is an HMAC of that word, so that a visitor without a key has one
too, and nothing has to be kept for it.
"""

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from plume_memory.forks import Lock
from plume_memory.server.problems import Problem, Refused

COOKIE = "plume_session"
SESSION_S = 12 * 3600.0
_MOST = 10_000


class Sessions:
    """The sessions of one process.

    Args:
        clock: monotonic seconds.
        mark: what cookies begin with; see `ServerSettings.mark`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, mark: str = "") -> None:
        self._clock, self._mark = clock, mark
        self._secret = secrets.token_bytes(32)
        self._keys: OrderedDict[str, tuple[float, str]] = OrderedDict()
        """Cookie → when it ends, and the key's id."""
        self._lock = Lock()

    def begin(self, key_id: str) -> str:
        """Begin a session of a key; returns its cookie, a new one."""
        cookie = self.new_cookie()
        with self._lock:
            self._expire()
            self._keys[cookie] = (self._clock() + SESSION_S, key_id)
            while len(self._keys) > _MOST:
                self._keys.popitem(last=False)
        return cookie

    def key_of(self, cookie: str) -> str | None:
        """Return the id of a session's key; None of a cookie that has none, or not any more."""
        with self._lock:
            self._expire()
            found = self._keys.get(cookie)
        return None if found is None else found[1]

    def new_cookie(self) -> str:
        """Return a random word."""
        return self._mark + secrets.token_urlsafe(32)

    def end(self, cookie: str) -> None:
        """End a session; twice is allowed."""
        with self._lock:
            self._keys.pop(cookie, None)

    def token(self, cookie: str) -> str:
        """Return the token that the forms of a cookie's pages carry."""
        return hmac.new(self._secret, cookie.encode(), hashlib.sha256).hexdigest()

    def check_token(self, cookie: str, token: str) -> None:
        """Refuse a form that no page of this cookie's made.

        Raises:
            Refused: 403.
        """
        if not cookie or not hmac.compare_digest(self.token(cookie).encode(), token.encode()):
            detail = "This form is not from this page, or from before the server's restart: load the page again."
            raise Refused(Problem(403, "forbidden", detail))

    def _expire(self) -> None:
        now = self._clock()
        while self._keys and next(iter(self._keys.values()))[0] <= now:
            self._keys.popitem(last=False)
