"""Parses an HTML page as a browser does."""

from __future__ import annotations

from html.parser import HTMLParser


class Reader(HTMLParser):
    """Notes every element with its attributes, the text, and what is within script and style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inline: dict[str, str] = {}
        self._texts: list[str] = []
        self._within: str | None = None
        self.feed(page)
        self.close()

    @property
    def text(self) -> str:
        """All visible text, with single spaces."""
        return " ".join(" ".join(self._texts).split())

    @property
    def links(self) -> list[str]:
        """Where its links lead."""
        return [a["href"] or "" for name, a in self.elements if name == "a"]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within = tag

    def handle_endtag(self, tag: str) -> None:
        self._within = None

    def handle_data(self, data: str) -> None:
        if self._within in ("script", "style"):
            self.inline[self._within] = data
        else:
            self._texts.append(data)
