"""Removes from an HTML page what a reader would not see: hidden elements, and text too small or too faint to read."""

import re
from dataclasses import dataclass, replace
from typing import Any

from tinycss2.color3 import parse_color

from builtin_tools.documents.in_box.styles import Declared, Styles

_NEVER_SHOWN = frozenset(
    (
        *("script", "style", "noscript", "template", "iframe", "object", "embed", "applet", "datalist", "select"),
        *("svg", "math", "audio", "video", "canvas", "noframes", "noembed", "frameset"),
    )
)
_HEAD = frozenset({"head", "title", "meta", "link", "base"})  # metadata is read from them
_SMALL = 1.5  # pixels; smaller text cannot be read
_FAINT = 0.06  # of opacity, and of the difference between the colours of text and background
_FAR = -400.0  # pixels; what is moved further than this to the left or to the top is outside the page
_NUMBER = re.compile(r"^([+-]?(?:\d+\.?\d*|\.\d+))\s*(px|pt|em|rem|%|ex|ch|vw|vh|cm|mm|in|pc)?$")
_PIXELS = {None: 1.0, "": 1.0, "px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "rem": 16.0}
_NOTHING = re.compile(r"^(inset\(\s*(50|100)%|circle\(\s*0|polygon\(\s*0(px)? 0(px)?\s*(,\s*0(px)? 0(px)?\s*)*\))")
_RECTANGLE = re.compile(r"^rect\(\s*([01](px)?[\s,]+){3}[01](px)?\s*\)$")
_SCALED_AWAY = re.compile(r"\b(scale[xy]?|scale3d)\(\s*0(\.0\d*)?\s*[,)]")
_MOVED_AWAY = re.compile(r"\btranslate[xy3d]*\([^)]*-\d{4,}")
_NAMED_SIZES = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "large": 18.0, "initial": 16.0}

_Colour = tuple[float, float, float]
_WHITE: _Colour = (1.0, 1.0, 1.0)


@dataclass(frozen=True, slots=True)
class _Look:
    """What an element inherits. `background` is None if it is a picture, or partly transparent."""

    colour: _Colour | None = (0.0, 0.0, 0.0)
    background: _Colour | None = _WHITE
    size: float = 16.0
    shown: bool = True


def remove_invisible(root: Any) -> int:
    """Remove what a reader would not see, and return how many characters of text were removed.

    Scripts, styles and the like are removed, too, but not counted.

    Args:
        root: The element ``html``, of lxml. It is changed.
    """
    styles = Styles(root)
    removed = 0
    todo: list[tuple[Any, _Look]] = [(root, _Look())]
    while todo:
        element, inherited = todo.pop()
        declared = styles.of(element)
        if element is not root and _hidden(element, declared):
            removed += _length("".join(element.itertext()))
            _drop(element)
            continue
        look = _look(element, declared, inherited)
        if not _readable(look):
            removed += _blank(element)
        for child in list(element):
            if not isinstance(child.tag, str) or child.tag in _NEVER_SHOWN:
                _drop(child)
            elif child.tag not in _HEAD:
                todo.append((child, look))
    return removed


def _hidden(element: Any, declared: Declared) -> bool:
    """Return whether an element and everything in it is hidden."""
    get = declared.get
    if element.get("hidden") is not None or (element.tag == "dialog" and element.get("open") is None):
        return True
    if element.tag == "input" and element.get("type", "").lower() == "hidden":
        return True
    if get("display") == "none" or get("content-visibility") == "hidden":
        return True
    opacity = _number(get("opacity", "1"))
    if opacity is not None and opacity <= _FAINT:
        return True
    return _cut_off(declared) or _moved_away(declared)


def _cut_off(declared: Declared) -> bool:
    get = declared.get
    if _NOTHING.search(get("clip-path", "")) or _RECTANGLE.search(get("clip", "")):
        return True
    if "opacity(0" in get("filter", "") or _SCALED_AWAY.search(get("transform", "")):
        return True
    clipped = "hidden" in {get("overflow"), get("overflow-x"), get("overflow-y")} or get("overflow") == "clip"
    sizes = (_pixels(get(name, ""), 16.0) for name in ("width", "height", "max-width", "max-height"))
    return clipped and any(size is not None and size <= _SMALL for size in sizes)


def _moved_away(declared: Declared) -> bool:
    get = declared.get
    if get("position") in {"absolute", "fixed", "relative"}:
        places = (_pixels(get(name, ""), 16.0) for name in ("left", "top", "right", "bottom"))
        if any(place is not None and place <= _FAR for place in places):
            return True
    shifts = (_pixels(get(name, ""), 16.0) for name in ("text-indent", "margin-left", "margin-top"))
    return any(shift is not None and shift <= _FAR for shift in shifts) or bool(
        _MOVED_AWAY.search(get("transform", ""))
    )


def _look(element: Any, declared: Declared, inherited: _Look) -> _Look:
    look = inherited
    size = declared.get("font-size")
    if size is not None:
        look = replace(look, size=_NAMED_SIZES.get(size) or _font_size(size, inherited.size))
    background = declared.get("background-color") or declared.get("background") or element.get("bgcolor")
    if background is not None:
        look = replace(look, background=_background(background, inherited.background))
    colour = declared.get("color") or element.get("color" if element.tag == "font" else "text")
    if colour is not None:
        look = replace(look, colour=_text_colour(colour, inherited))
    visibility = declared.get("visibility")
    if visibility is not None:
        look = replace(look, shown=visibility not in {"hidden", "collapse"})
    return look


def _readable(look: _Look) -> bool:
    if not look.shown or look.size <= _SMALL or look.colour is None:
        return False
    if look.background is None:
        return True
    return max(abs(one - other) for one, other in zip(look.colour, look.background, strict=True)) > _FAINT


def _text_colour(value: str, inherited: _Look) -> _Colour | None:
    """Return a colour; None if the text is transparent."""
    found = parse_color(value)
    if found is None or isinstance(found, str):
        return inherited.colour
    red, green, blue, alpha = found
    return (red, green, blue) if alpha > _FAINT else None


def _background(value: str, inherited: _Colour | None) -> _Colour | None:
    if "url(" in value or "gradient(" in value:
        return None
    for part in [value, *value.split()]:
        found = parse_color(part)
        if found is not None and not isinstance(found, str):
            red, green, blue, alpha = found
            return inherited if alpha <= _FAINT else (red, green, blue) if alpha > 1 - _FAINT else None
    return inherited


def _number(value: str) -> float | None:
    match = _NUMBER.match(value)
    if match is None:
        return None
    return float(match[1]) / (100.0 if match[2] == "%" else 1.0)


def _pixels(value: str, em: float) -> float | None:
    """Return a length in pixels; None if it is none, or relative to something unknown."""
    match = _NUMBER.match(value)
    if match is None:
        return None
    number, unit = float(match[1]), match[2]
    if number == 0:
        return 0.0
    if unit in {"em", "ex", "ch"}:
        return number * em
    if unit in {"%", "vw", "vh"}:
        return number * 12.0 if number < 0 else None  # of a page 1,200 pixels wide
    return number * _PIXELS[unit]


def _font_size(value: str, inherited: float) -> float:
    match = _NUMBER.match(value)
    if match is not None and match[2] == "%":
        return inherited * float(match[1]) / 100.0
    size = _pixels(value, inherited)
    return inherited if size is None else size


def _blank(element: Any) -> int:
    """Remove the text directly in an element, and return its length."""
    removed = _length(element.text or "")
    element.text = None
    for child in element:
        removed += _length(child.tail or "")
        child.tail = None
    return removed


def _length(text: str) -> int:
    return len("".join(text.split()))


def _drop(element: Any) -> None:
    """Remove an element, and keep the text that follows it."""
    parent, before, tail = element.getparent(), element.getprevious(), element.tail
    if parent is None:
        return
    if tail:
        if before is not None:
            before.tail = (before.tail or "") + tail
        else:
            parent.text = (parent.text or "") + tail
    parent.remove(element)
