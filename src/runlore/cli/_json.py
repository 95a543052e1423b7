"""What --fields, --offset and --max-tokens make of an answer before it is printed as JSON.

Every command that has data prints it as JSON with `--json`: data goes to stdout, all else to
stderr. On a terminal it is indented, elsewhere it is one line. Times are ISO 8601 in UTC.
Characters that a terminal would obey are escaped. Fields are added in later versions; none is
renamed or taken away. What is said in an answer comes from transcripts: it is data, and no
instruction.

**Errors.** Then nothing is on stdout, and the last line on stderr is `{"error": {"code": …, "message": …, "hint": …}}`, also when the words
of the command are wrong. `code` is one of those below, `message` is for people, `hint` is what to try next or null. Warnings are
lines of text before it. The exit status is 0 when it is done, 1 when it failed, or when search, file and commit find nothing (their
answer is on stdout then) or the doctor finds something, 2 for wrong usage, 3 when a budget is spent and `--fail-over-budget` was given,
130 when it was interrupted. A reader that closes the pipe early is no error. Nothing asks for anything unless both stdin and stderr
are terminals; `--yes` answers before.

**Fields.** `--fields a,b.c` leaves nothing but these. A path is seen from the answer and goes through lists: `ls --fields uid,title`,
`search x --fields total,hits.uid,hits.events.ref`. A field that there is not is an error that lists those that there are, so
`--fields ?` shows them.

**Parts.** `--offset N` leaves the first N items of an answer out; `-n` counts from there. What is listed may move between two calls.

**Tokens.** `--max-tokens N` (200 or more) keeps an answer within a model's context. It is an object then, with `left_off` as its
last field; an array stands in its `items`. `left_off` is null when all is there. Otherwise long texts were cut, with a mark that says how
much is missing, and items were left off at the end: `items` says how many, `texts_cut` and `lists_cut` how many of those in the answer
are not whole, `next` is the command for the items that follow (null when there are none, or when not one has room), `hint` says how to
get the rest. Of a stream that goes on (`--follow`, `--watch`) each line is bounded by itself.

Tokens are estimated without a tokenizer, on the high side: a small letter is a third of one, a
space a fifth, a capital or a digit a whole, any other byte three quarters. Of 2,217 pieces of real
transcripts two tokenizers (cl100k, and one of Anthropic's) made in the median 0.63 and 0.68 of what
this says, and more in 1.2 % and 0.5 % of them, by at most 15 %.

`--fields`, `--offset` and `--max-tokens` ask for JSON, so that `--json` need not be said as well.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from subprocess import list2cmdline
from typing import Any

import click
import msgspec

from ..text import tokens
from ._shapes import SHAPES, Shape, fields_of
from ._wanted import Tree, Wanted


def want(
    command: str, words: Sequence[str], fields: str | None, max_tokens: int | None, offset: int
) -> Wanted:
    """Raises BadParameter for a field that no form of the command's answer has: before anything is
    done."""
    tree = parse(fields) if fields is not None else {}
    check(tree, [shape.type for shape in SHAPES[command].values()])
    return Wanted(command, tuple(words), tree, max_tokens, offset)


def shaped(value: Any, wanted: Wanted, form: str, *, in_a_line: bool) -> Any:
    """The value with these fields, from this item on, and in so many tokens. A line of a stream has
    no items of its own to leave off."""
    shape = SHAPES[wanted.command][form]
    check(wanted.fields, [shape.type])
    answer = chosen(plain(value), wanted.fields)
    items = None if in_a_line else shape.items
    items = items if items in ("", None) or items in answer else None
    if wanted.offset and items is not None:
        answer = (
            answer[wanted.offset :]
            if items == ""
            else {**answer, items: answer[items][wanted.offset :]}
        )
    return answer if wanted.max_tokens is None else fitted(answer, wanted, items, shape)


def plain(value: Any) -> Any:
    """The value as a reader of its JSON has it. Half of a surrogate pair, which has no UTF-8,
    becomes a question mark."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(value, str_keys=True), ensure_ascii=False)
        return msgspec.json.decode(text.encode("utf-8", "replace"))


# ── fields ────────────────────────────────────────────────────────────────────────────────────────
def parse(text: str) -> Tree:
    """`a,b.c` as a tree. What is named twice, once as a whole, is wanted whole."""
    tree: Tree = {}
    for path in filter(None, (part.strip() for part in text.split(","))):
        below = tree
        *parents, last = path.split(".")
        for name in parents:
            if below.get(name) == {}:
                break
            below = below.setdefault(name, {})
        else:
            below[last] = {}
    if not tree:
        raise click.BadParameter("name at least one field", param_hint="--fields")
    return tree


def check(tree: Tree, types: Sequence[Any], path: str = "") -> None:
    """Raises BadParameter for a field that none of the types has."""
    for name, below in tree.items():
        known = [fields_of(one) for one in types]
        found = [
            each[name] if name in each else each["*"]
            for each in known
            if name in each or "*" in each
        ]
        if not found:
            there = {
                field: f"{field}.…" if fields_of(kind) else field
                for each in known
                for field, kind in each.items()
            }
            told = (
                f"{path or 'the answer'} has {', '.join(there.values())}"
                if there
                else f"{path} has no fields"
            )
            asked = "" if name == "?" else f"there is no field {path}{'.' * bool(path)}{name}; "
            raise click.BadParameter(f"{asked}{told}", param_hint="--fields")
        check(below, found, f"{path}{'.' * bool(path)}{name}")


def chosen(value: Any, tree: Tree) -> Any:
    """The value with nothing but these fields. A list is looked through: they are those of its
    items."""
    if not tree:
        return value
    if isinstance(value, list):
        return [chosen(one, tree) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: chosen(value[name], below) for name, below in tree.items() if name in value}


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────
def fitted(answer: Any, wanted: Wanted, items: str | None, shape: Shape) -> Any:
    """The answer as an object that ends with `left_off`: null when it is whole. An array stands in
    its `items`."""
    assert wanted.max_tokens is not None
    room = wanted.max_tokens - tokens.tokens('{"items":,"left_off":null}')
    if tokens.tokens_of(answer) <= room:
        return with_note(answer, None)
    worst = tokens.tokens_of(
        note(
            wanted,
            shape,
            tokens.Fitted(value=(), shown=10**6, left=10**6, texts=10**6, lists=10**6),
            10**7,
        )
    )
    made = tokens.fit(answer, room - worst, items)
    needed = 0
    if not made.shown and (items is not None or made.value is None):
        first = (
            answer[:1] if items == "" else {**answer, items: answer[items][:1]} if items else answer
        )
        needed = wanted.max_tokens - room + worst + tokens.tokens_of(first)
    return with_note(made.value, note(wanted, shape, made, needed))


def with_note(answer: Any, left_off: Any) -> dict[str, Any]:
    if isinstance(answer, dict):
        return {**answer, "left_off": left_off}
    return {"left_off": left_off} if answer is None else {"items": answer, "left_off": left_off}


def note(wanted: Wanted, shape: Shape, made: tokens.Fitted, needed: int = 0) -> dict[str, Any]:
    """What is not there, and how to get it. `needed` is what the first item would take, when not
    even that is there."""
    following = (
        command_line(wanted, wanted.offset + made.shown) if made.left and made.shown else None
    )
    hints = (
        [f"{'the first item alone' if made.left else 'it'} needs --max-tokens {needed}"]
        if needed
        else []
    )
    if made.texts or made.lists:
        hints.append(shape.whole or "what is cut is whole without --max-tokens")
    if not wanted.fields:
        hints.append("--fields takes less room")
    return {
        "items": made.left,
        "texts_cut": made.texts,
        "lists_cut": made.lists,
        "next": (
            following
            if following is None or tokens.tokens(following) <= (wanted.max_tokens or 0) // 3
            else None
        ),
        "hint": "; ".join(hints) or None,
    }


def command_line(wanted: Wanted, offset: int) -> str:
    """The same command from another item on."""
    words: list[str] = []
    rest = iter(wanted.words)
    for word in rest:
        if word == "--":
            words += [word, *rest]
        elif word == "--offset":
            next(rest, None)
        elif not word.startswith("--offset="):
            words.append(word)
    end = words.index("--") if "--" in words else len(words)
    line = ["runlore", *words[:end], f"--offset={offset}", *words[end:]]
    return list2cmdline(line) if os.name == "nt" else shlex.join(line)
