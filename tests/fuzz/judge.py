"""Find errors in the outcome of a command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .command import Outcome

MAX_MEMORY_BYTES = 1_500_000_000
MAX_LINE = 2_000
MAX_TEXT = 30_000

PYTHONIC = re.compile(
    r"Traceback|object at 0x|NoneType|<class |<function|np\.(int|float|uint|bool|str)|\bdtype|"
    r"list index|dict key|unsupported operand|not supported between|Input should be|"
    r"invalid literal|"
    r"has no attribute|positional argument|object is not|must be str|argument must be|"
    r"int too large|too large to convert|codec can't|surrogates not allowed|array\(|ndarray|"
    r"KeyError|ValueError|TypeError|Exception|\[Errno"
)
"""Words of Python's own messages, which do not help a user."""

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class Finding:
    """One error; findings with the same `kind` and `what` have the same cause."""

    kind: str
    what: str
    detail: str = ""


def command(outcome: Outcome, statuses: Iterable[int]) -> Iterator[Finding]:
    """Yield the findings of a command that should exit with one of `statuses`."""
    if outcome.trouble.startswith("time: "):
        yield Finding("hang", outcome.trouble)
    elif outcome.trouble:
        yield Finding("traceback", " ".join(outcome.trouble.split(":")[:3]), outcome.trouble)
    elif outcome.status not in tuple(statuses):
        yield Finding("status", f"exit status {outcome.status}", outcome.err[-300:])
    if outcome.peak_bytes > MAX_MEMORY_BYTES:
        yield Finding("memory", "too much", f"{outcome.peak_bytes / 1e9:.1f} GB")
    if "Warning: " in outcome.err and ".py:" in outcome.err:
        yield Finding("message", "a warning of Python's", outcome.err[:400])
    if "Traceback (most recent" in outcome.err + outcome.out:
        yield Finding("traceback", *_printed(outcome.err + outcome.out))
    elif outcome.status in (1, 2):
        yield from message(outcome.err)


def _printed(text: str) -> tuple[str, str]:
    """Return a printed traceback's exception with its innermost location, and the text's end."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', text)
    raised = re.findall(
        r"^(\w[\w.]*(?:Error|Exception|Interrupt|Exit|Iteration)\b)", text, re.MULTILINE
    )
    path, line, name = frames[-1] if frames else ("?", "?", "?")
    where = f"{'/'.join(path.split('/')[-2:])}:{line} {name}"
    return f"{raised[-1] if raised else '?'} {where}", text[-600:]


def message(text: str) -> Iterator[Finding]:
    """Yield the findings of an error's text."""
    if "error: " not in text and "Error: " not in text:
        yield Finding("message", "none", text[-300:])
    if PYTHONIC.search(text):
        yield Finding("message", f"Python's words: {PYTHONIC.search(text)[0]}", text[:400])  # type: ignore[index]
    if CONTROL.search(text):
        yield Finding("message", f"control character {CONTROL.search(text)[0]!r}", text[:300])  # type: ignore[index]
    if len(text) > MAX_TEXT or any(len(line) > MAX_LINE for line in text.splitlines()):
        yield Finding("message", "too long", text[:200])


def _escaped(control: re.Match[str]) -> str:
    """Return a control character as messages write it."""
    return f"\\x{ord(control[0]):02x}"


def names_place(text: str, key: str) -> Iterator[Finding]:
    """Check that every error starts with a path or an option, and that one names the key."""
    lines = [line for line in text.splitlines() if line.startswith("error: ")]
    for line in lines:
        if not re.match("error: (/|--)", line):
            yield Finding("message", "names no file", line[:300])
    words = [CONTROL.sub(_escaped, word) for word in key.split(".") if word]
    if "invalid TOML" in text or "nested too deeply" in text:
        return  # the file as a whole
    if words and lines and not any(word in text for word in words):
        yield Finding("message", "does not name the key", f"{key}: {text[:300]}")
