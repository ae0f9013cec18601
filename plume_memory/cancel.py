"""Ends in one thread what another one waits for. Knows no model."""


class Cancel:
    """Says to a decode in another thread that nobody waits for it any more. Once said, it stays said."""

    def __init__(self) -> None:
        self._reason: str | None = None

    def __call__(self, reason: str) -> None:
        """End what was given this; the first reason counts."""
        self._reason = self._reason or reason

    @property
    def reason(self) -> str | None:
        """Why; None until it is said."""
        return self._reason
