"""Detects replies that only announce work, so that the loop can ask the model to do it (LOOP-4).

The rule is deterministic and reads only the end of a reply. A reply is an announcement if its last sentence says that
the model itself will now do something ("Let me check the logs.", "I'll convert the file."), introduces the steps or the
code of such work, or asks the user to wait. It is none if

- it asks the user something or for something,
- the work depends on the user or is for later ("if you like", "every day", "in 20 minutes"), or
- something follows that the announced work would have produced, such as a list after "Let me look at the options:".

Quotations and code are ignored. Only English is understood: a reply in another language is never an announcement. A
reply that is mistaken for an announcement costs one turn, because a run is nudged once and may repeat its answer.
"""

import re

READ_CHARACTERS = 4_000  # the end of a reply that is examined, which bounds the time

# Verbs after "let me" that announce work. Others do not, as in "let me explain".
_WORK = (
    "add|aggregate|analy[sz]e|apply|attempt|begin|browse|build|calculate|call|carry|check|clean|collect|combine|compare|"
    "compile|compute|continue|convert|copy|count|crawl|create|debug|decode|delete|determine|dig|do|double-check|"
    "download|draft|edit|examine|execute|explore|extract|fetch|figure|filter|find|fix|format|gather|generate|get|go|"
    "grab|handle|identify|implement|import|inspect|install|investigate|load|locate|look|merge|modify|move|open|parse|"
    "perform|plot|proceed|process|pull|query|read|recalculate|recompute|remove|rename|render|replace|re-?run|resize|"
    "retrieve|retry|review|rewrite|run|save|scan|scrape|search|see|set|sort|split|start|store|sum|take|test|transform|"
    "translate|try|update|upload|use|validate|verify|visit|work|write"
)
# Words after "I'll" that announce no work, as in "I'll remember that". All others do.
_NO_WORK = (
    "not|never|no|only|always|be|have|remember|remind|keep|leave|let|wait|stay|stop|help|assist|assume|explain|say|tell|"
    "know|need|respect|avoid|refrain|stick|treat|notify|inform|miss|gladly|happily"
)
_WILL = r"(?:i'll|i will|i(?:'m| am)(?: now)? (?:going|about) to|i'm on it)"
_SHOULD = "(?:i plan to|i need to|i have to|i should|let me|let's|let us)"
_BETWEEN = (
    r"(?: (?:now|first|just|quickly|then|next|also|therefore|immediately|carefully|simply|need to|have to|try to|"
    r"go ahead and))*+"
)
_CLAUSE_BEGINS = r"(?:^|[,;:\u2013\u2014-] ?|\b(?:and|so|but|then|now|first|next|okay|ok|sure|alright) )"
_INTENTION = re.compile(
    rf"{_CLAUSE_BEGINS}(?:{_WILL}{_BETWEEN}(?! (?:{_NO_WORK})\b)|{_SHOULD}{_BETWEEN} (?:{_WORK})\b)"
)
_STALL = re.compile(
    r"\b(?:one moment|just a moment|give me a (?:moment|second|minute)|hold on|stand by|bear with me|please wait|"
    r"i(?:'m| am) (?:now )?working on)\b"
)
_STEPS = re.compile(r"^(?:here(?:'s| is) )?my (?:plan|approach)\b.*:$|\b(?:the following|these steps|into steps)\b.*:$")
_RUNS_CODE = re.compile(r"\b(?:run|execute|use)\b.*:$")
_LATER = re.compile(
    r"\b(?:if|once|unless|whenever|when|as soon as|until) (?:you|it|they|there|the)\b|"
    r"\b(?:next time|in (?:the )?future|from now on|each (?:day|week|month))\b|"
    r"\b(?:tomorrow|tonight|later|every|daily|hourly|weekly|monthly|always)\b|"
    r"\bin \d+ (?:seconds|minutes|hours|days)\b|\bat \d|\bas you asked\b"
)
_TO_USER = re.compile(
    r"\?$|\bplease (?!wait|hold|stand|bear|give me)|\b(?:could|can|would) you\b|\bi need (?:your|you|the)\b|"
    r"^(?:send|tell|give|show|upload) (?:me|it)\b|"
    r"\blet me know (?:if|whether|when|which|what|how) you(?:'d| would| want)|"
    r"\byour (?:approval|confirmation|permission|consent)\b"
)
_POLITE = re.compile(r"^(?:let me know if|feel free|i hope|hope this|thanks|thank you|stay tuned|don't hesitate)")
_REMARK = re.compile(
    r"^(?:this|that|it|these|they) (?:will|should|would|may|might|can)\b|^(?:starting|beginning) with\b"
)
_ITEM = re.compile(r"^(?:[-*+•]|\d+[.)])\s")
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTATION = re.compile(r"\"[^\"\n]*\"|“[^”\n]*”|(?<!\w)'[^'\n]*'(?!\w)|`[^`\n]*`")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_CODE = "\0"  # stands for a block of code


def announces_work(reply: str) -> bool:
    """Return whether a reply without a call only announces what the model will do."""
    lines = _lines(reply)
    follows = ""
    while lines and (lines[-1] == _CODE or _ITEM.match(lines[-1])):
        follows = "code" if lines.pop() == _CODE else "list"
    sentences = [each for line in lines for each in _SENTENCE_END.split(line)]
    if any(_TO_USER.search(each) for each in sentences):
        return False
    while len(sentences) > 1 and (_POLITE.match(sentences[-1]) or (not follows and _REMARK.match(sentences[-1]))):
        sentences.pop()
    if not sentences or _LATER.search(sentences[-1]):
        return False
    last = sentences[-1]
    intends = _INTENTION.search(last)
    if follows == "list":
        return _STEPS.search(last) is not None
    if follows == "code":
        return intends is not None and _RUNS_CODE.search(last) is not None
    return intends is not None or _STALL.search(last) is not None


def _lines(reply: str) -> list[str]:
    """Return the lines of the end of a reply in small letters, without quotations, emphasis and the text of code."""
    text = reply[-READ_CHARACTERS:].lower().replace("\u2019", "'")
    text = _QUOTATION.sub("it", _CODE_BLOCK.sub(f"\n{_CODE}\n", text))
    lines = [line.replace("**", "").replace("__", "").lstrip("#").strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(">")]
