from __future__ import annotations

from ytf.web.markup import Markup, join, tag


def test_text_is_escaped_and_markup_is_not() -> None:
    inner = tag("b", "<script>", "&")
    assert inner == "<b>&lt;script&gt;&amp;</b>"
    assert tag("p", inner, "<") == "<p><b>&lt;script&gt;&amp;</b>&lt;</p>"
    assert join("<", Markup("<br>")) == "&lt;<br>"


def test_attributes_are_escaped_named_and_left_out() -> None:
    made = tag("a", href='"><script>', class_="x", data_log=True, id=None, hidden=False)
    assert made == '<a href="&quot;&gt;&lt;script&gt;" class="x" data-log></a>'
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'
