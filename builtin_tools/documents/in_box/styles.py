"""`Styles`: the declarations of a page's own style sheets and attributes that decide whether text can be seen.

Style sheets in other files are not requested, so what only they hide stays.
"""

import re
from collections.abc import Iterator
from typing import Any

import tinycss2
from cssselect import HTMLTranslator, SelectorError
from cssselect import parse as parse_selectors
from lxml import etree

MOST_RULES = 2_000  # of all style sheets of a page; further ones are ignored
PROPERTIES = frozenset(
    (
        *("display", "visibility", "opacity", "font-size", "color", "background", "background-color", "position"),
        *("left", "right", "top", "bottom", "text-indent", "clip", "clip-path", "width", "height", "max-width"),
        *("max-height", "overflow", "overflow-x", "overflow-y", "transform", "content-visibility", "filter"),
        *("margin-left", "margin-top"),
    )
)
_CONDITIONAL = frozenset({"media", "supports", "layer"})
_ELSEWHERE = re.compile(r"\b(print|speech|braille|max-width|max-device-width|prefers-)")

Declared = dict[str, str]
_Rank = tuple[bool, bool, tuple[int, int, int], int]  # important, inline, specificity, order


class Styles:
    """Finds the declarations that apply to an element, by the order of precedence of CSS."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._order = 0
        self._declared: dict[Any, dict[str, tuple[_Rank, str]]] = {}
        for element in root.iter("style"):
            for selector, declarations in _rules(tinycss2.parse_stylesheet(element.text or "", True, True)):
                if self._order >= MOST_RULES:
                    return
                self._add(selector, declarations)

    def of(self, element: Any) -> Declared:
        """Return the values that apply to an element, in lower case, without inherited ones."""
        found = dict(self._declared.get(element, ()))
        inline = element.get("style")
        if inline:
            for name, value, important in _declarations(tinycss2.parse_declaration_list(inline, True, True)):
                _declare(found, name, ((important, True, (0, 0, 0), 0), value))
        return {name: value for name, (_, value) in found.items()}

    def _add(self, selectors: str, declarations: list[tuple[str, str, bool]]) -> None:
        self._order += 1
        try:
            parsed = parse_selectors(selectors)
            for selector in parsed:
                if selector.pseudo_element is not None:
                    continue
                path = HTMLTranslator().selector_to_xpath(selector)
                for element in self._root.xpath(path):
                    found = self._declared.setdefault(element, {})
                    for name, value, important in declarations:
                        _declare(found, name, ((important, False, selector.specificity(), self._order), value))
        except (SelectorError, etree.XPathError):  # a selector that is invalid, or newer than the library
            return


def _declare(found: dict[str, tuple[_Rank, str]], name: str, new: tuple[_Rank, str]) -> None:
    old = found.get(name)
    if old is None or old[0] <= new[0]:
        found[name] = new


def _rules(nodes: Any) -> Iterator[tuple[str, list[tuple[str, str, bool]]]]:
    """Yield the selectors and the declarations of rules that apply to a page on a large screen."""
    for node in nodes:
        if node.type == "qualified-rule":
            found = list(_declarations(tinycss2.parse_declaration_list(node.content, True, True)))
            if found:
                yield tinycss2.serialize(node.prelude).strip(), found
        elif node.type == "at-rule" and _applies(node):
            yield from _rules(tinycss2.parse_rule_list(node.content, True, True))


def _applies(rule: Any) -> bool:
    conditional = rule.lower_at_keyword in _CONDITIONAL and rule.content is not None
    return conditional and not _ELSEWHERE.search(tinycss2.serialize(rule.prelude).lower())


def _declarations(nodes: Any) -> Iterator[tuple[str, str, bool]]:
    for node in nodes:
        if node.type == "declaration" and node.lower_name in PROPERTIES:
            yield node.lower_name, tinycss2.serialize(node.value).strip().lower(), bool(node.important)
