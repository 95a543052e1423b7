"""runlore's ledger against ccusage, day by day and model by model, with the rule behind every
difference.

    python bench/usage.py --ccusage BINARY [--corpus DIR] [--generated MB] [--home DIR ...]
        [--agents claude,codex,grok] [--write]

Both count the same home directories. `_ccusage.py` does what ccusage does, with each of its own
rules as a switch: with all of them on its sums must be ccusage's, with all off they must be the
ledger's, and switching them off one after another tells what each is worth, and where. What is left
over is printed as unexplained. `--write` puts the tables into USAGE.md.

`--corpus` is a folder of real transcripts: those of Claude Code and of Grok make a home each, those
of Codex one for each folder `codex-home` and one for the rest, because two of them have sessions of
the same name.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from _ccusage import RULES, VERSION, Entry, Tokens, entries
from _measure import BENCH, alternate, note, remove, run, seconds, times, warm
from _rollouts import make_codex, make_grok
from peers import default_scratch
from sync import Runlore, _stage_claude, _stage_codex

sys.path.insert(0, str(BENCH.parent / "src"))

from runlore.model import Call
from runlore.pricing import ledger
from runlore.pricing.prices import find
from runlore.pricing.table import Schedule
from runlore.store import open_store
from runlore.store.calls import hash_of

PAGE = BENCH / "USAGE.md"
FOLDERS = {"claude": ".claude/projects", "codex": ".codex", "grok": ".grok/sessions"}
NOTHING: Tokens = (0, 0, 0, 0)
SAME_USD = 1e-9
USD = 10**12

Cell = tuple[str, str]
"""A day and a model; `*` for the whole day, which has models without a name, too."""


class Cost(NamedTuple):
    """In 1e-12 USD: the ledger's, the one by the rules of ccusage, and the rules that differ."""

    usd: int
    compat: int
    why: frozenset[str]


class Side(NamedTuple):
    tokens: dict[Cell, Tokens]
    costs: dict[Cell, Cost]


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare what runlore and ccusage count.")
    parser.add_argument(
        "--ccusage", type=Path, required=True, help=f"the native binary of ccusage {VERSION}"
    )
    parser.add_argument("--corpus", type=Path, help="folder of real transcripts")
    parser.add_argument(
        "--generated",
        type=float,
        default=0,
        metavar="MB",
        help="also a home made from a seed, of this size",
    )
    parser.add_argument(
        "--home",
        type=Path,
        action="append",
        default=[],
        help="a home directory; may be given several times",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=0,
        help="also time the reports of both over the last home, so many times each",
    )
    parser.add_argument(
        "--agents", default=",".join(FOLDERS), help=f"which of {', '.join(FOLDERS)}"
    )
    parser.add_argument(
        "--scratch", type=Path, default=default_scratch(), help="where homes and stores are made"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="the interpreter that has runlore's dependencies"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into USAGE.md")
    args = parser.parse_args()
    homes = [
        *args.home,
        *(_stage(args.corpus, args.scratch / "usage-homes") if args.corpus else ()),
    ]
    if args.generated:
        homes.append(_generate(args.scratch / "usage-generated" / "generated", args.generated))
    agents = args.agents.split(",")
    found = [
        Comparison(agent, home, args)
        for home in homes
        for agent in agents
        if (home / FOLDERS[agent]).is_dir()
    ]
    page = "\n".join([*_page(found), *(_speed(args, homes[-1]) if args.rounds else ())])
    print(page)
    if args.write:
        PAGE.write_text(page + "\n")
    sys.exit(any(one.unexplained for one in found))


class Comparison:
    """One agent in one home directory, counted by both, and by the rules in between."""

    def __init__(self, agent: str, home: Path, args: argparse.Namespace) -> None:
        self.agent, self.name = agent, home.name
        note(f"{agent} in {home}")
        self.theirs = _theirs(args.ccusage, agent, home)
        self.ours = _ours(agent, home, args.scratch / "usage-data", args.python)
        rules = list(RULES[agent])
        counted = [entries(agent, home, rules[n:]) for n in range(len(rules) + 1)]
        self.steps = {rule: _changes(counted[n], counted[n + 1]) for n, rule in enumerate(rules)}
        self.told: dict[Cell, int] = defaultdict(int)
        for entry in counted[0]:
            if entry.usd is not None:
                self.told[entry.day, str(entry.model)] += round(entry.usd * USD)
        self.unexplained = [
            *_unlike("ccusage", self.theirs.tokens, _summed(counted[0])),
            *_unlike("runlore", self.ours.tokens, _summed(counted[-1])),
        ]

    @property
    def cells(self) -> list[Cell]:
        return sorted(
            cell for cell in self.theirs.tokens.keys() | self.ours.tokens.keys() if cell[1] != "*"
        )

    @property
    def equal(self) -> list[Cell]:
        return [
            cell
            for cell in self.cells
            if self.theirs.tokens.get(cell) == self.ours.tokens.get(cell)
        ]


# ── the two sides ─────────────────────────────────────────────────────────────────────────────────


def _theirs(binary: Path, agent: str, home: Path) -> Side:
    env = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "TZ": "UTC",
        "LOG_LEVEL": "0",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        [str(binary), agent, "daily", "--json", "--offline"],
        env=env,
        capture_output=True,
        text=True,
    )
    try:
        days = json.loads(done.stdout)["daily"]
    except (ValueError, KeyError, TypeError):
        sys.exit(f"{binary} {agent} daily: {done.stdout[-500:]}{done.stderr[-500:]}")
    tokens: dict[Cell, Tokens] = {}
    costs: dict[Cell, Cost] = {}
    for day in days:
        date = day.get("date") or day["period"]
        models = day.get("models") or {
            part["modelName"]: part for part in day.get("modelBreakdowns", ())
        }
        for name, part in [("*", day), *(models.items() if isinstance(models, dict) else ())]:
            # There the fast tier is a separate model.
            cell = date, name.removesuffix("-fast")
            tokens[cell] = _plus(tokens.get(cell, NOTHING), _four(part))
            usd = next((part[key] for key in ("cost", "totalCost", "costUSD") if key in part), None)
            if usd is not None:
                whole = round(usd * USD) + (costs[cell].usd if cell in costs else 0)
                costs[cell] = Cost(whole, whole, frozenset())
    return Side({cell: count for cell, count in tokens.items() if any(count)}, costs)


def _four(part: dict[str, int]) -> Tokens:
    return (
        part["inputTokens"],
        part["outputTokens"],
        part["cacheReadTokens"],
        part.get("cacheCreationTokens", 0),
    )


def _ours(agent: str, home: Path, data: Path, python: str) -> Side:
    side = Runlore(python, home, data)
    side.clear()
    side.run("sync", "--agent", agent)
    database = sqlite3.connect(f"file:{data / 'runlore.db'}?mode=ro", uri=True)
    usd = dict(database.execute("select hash, usd from calls"))
    database.close()
    store = open_store(str(data / "runlore.db"), read_only=True)
    tokens: dict[Cell, Tokens] = defaultdict(lambda: NOTHING)
    costs: dict[Cell, Cost] = defaultdict(lambda: Cost(0, 0, frozenset()))
    for call in (kept.call for kept in store.ledger.find(list(usd))):
        day = call.ts.date().isoformat() if call.ts else ""
        written = call.cache_write_5m_tokens + call.cache_write_1h_tokens
        cost = _cost(call, usd[hash_of(call)], agent)
        for model in ("*", call.model):
            if model == "*" or _is_model(model):
                cell = day, str(model)
                tokens[cell] = _plus(
                    tokens[cell],
                    (call.input_tokens, call.output_tokens, call.cache_read_tokens, written),
                )
                costs[cell] = Cost(
                    *(one + other for one, other in zip(costs[cell][:2], cost, strict=False)),
                    costs[cell].why | cost.why,
                )
    store.close()
    side.clear()
    return Side({cell: count for cell, count in tokens.items() if any(count)}, costs)


def _cost(call: Call, usd: int, agent: str) -> Cost:
    """Return the ledger's cost, and what ccusage would compute for the same call with today's
    price."""
    if call.invoiced is not None:
        return Cost(usd, call.invoiced, frozenset())
    model = call.model or ("gpt-5" if agent == "codex" else None)
    now = find(model, None, call.provider)
    then = find(call.model, call.ts, call.provider)
    bare = msgspec.structs.replace(call, model=model, region=None, web_searches=0)
    theirs = ledger.cost(bare, now).usd
    why = {"no model" if not call.model else ""}
    if (
        agent == "claude"
        and now
        and now.standard.steps
        and call.prompt_tokens > now.standard.steps[0][0]
    ):
        theirs = _split(bare, now.standard)
        why.add("C11, C12: the whole request is dear, not what is above the limit")
    why.add("C25: US only costs more" if call.region and theirs else "")
    why.add("C21: web search" if call.web_searches else "")
    why.add(
        "price of the day"
        if then and ledger.cost(call, then).usd != ledger.cost(call, now).usd
        else ""
    )
    return Cost(usd, theirs, frozenset(filter(None, why)))


def _split(call: Call, schedule: Schedule) -> int:
    """Each class on its own, the first so many tokens at the usual price."""
    (above, dear), usual = schedule.steps[0], schedule.base
    classes = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
    counts = {name: getattr(call, f"{name}_tokens") for name in classes}
    return sum(
        min(n, above) * getattr(usual, name) + max(0, n - above) * getattr(dear, name)
        for name, n in counts.items()
    )


def _is_model(model: str | None) -> bool:
    """Return True for the models that both sides have rows for."""
    return bool(model) and model != "<synthetic>"


# ── the differences ───────────────────────────────────────────────────────────────────────────────


class Change(NamedTuple):
    """The tokens that a rule adds to a day and a model because of a file."""

    day: str
    model: str | None
    file: str
    tokens: Tokens


def _changes(having: list[Entry], without: list[Entry]) -> list[Change]:
    sums: dict[tuple[str, str | None, str], Tokens] = defaultdict(lambda: NOTHING)
    for sign, found in ((1, having), (-1, without)):
        for entry in found:
            key = entry.day, entry.model, entry.file
            signed = tuple(sign * count for count in entry.tokens)
            sums[key] = _plus(sums[key], signed)  # type: ignore[arg-type]
    return [Change(*key, count) for key, count in sorted(sums.items(), key=str) if any(count)]


def _summed(found: Iterable[Entry]) -> dict[Cell, Tokens]:
    sums: dict[Cell, Tokens] = defaultdict(lambda: NOTHING)
    for entry in found:
        for model in ("*", entry.model):
            if model == "*" or _is_model(model):
                sums[entry.day, str(model)] = _plus(sums[entry.day, str(model)], entry.tokens)
    return {cell: count for cell, count in sums.items() if any(count)}


def _unlike(who: str, real: dict[Cell, Tokens], made: dict[Cell, Tokens]) -> Iterator[str]:
    for cell in sorted(real.keys() | made.keys()):
        if real.get(cell) != made.get(cell):
            yield f"{who} {' '.join(cell)}: {real.get(cell)}, by the rules {made.get(cell)}"


def _plus(one: Tokens, other: Tokens) -> Tokens:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


# ── the page ──────────────────────────────────────────────────────────────────────────────────────


def _page(found: list[Comparison]) -> Iterator[str]:
    yield f"# Tokens and cost beside ccusage {VERSION}\n"
    yield (
        "Written by `usage.py --write`; see there. Tokens are input, output, cache read, cache"
        " write."
    )
    yield (
        "\n## Agreement\n\n| agent | home | days × models | equal to the token | explained |"
        " unexplained | ccusage | runlore |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for one in found:
        sums = [
            " / ".join(f"{count:,}" for count in _total(side)) for side in (one.theirs, one.ours)
        ]
        different = len(one.cells) - len(one.equal)
        row = (
            one.agent,
            one.name,
            len(one.cells),
            len(one.equal),
            different if not one.unexplained else "?",
            len(one.unexplained),
            *sums,
        )
        yield f"| {' | '.join(map(str, row))} |"
    for one in found:
        yield from (f"\nUnexplained: {line}" for line in one.unexplained)
    yield from _differences(found)
    yield from _costs(found)


def _total(side: Side) -> Tokens:
    total = NOTHING
    for (_, model), count in side.tokens.items():
        total = _plus(total, count) if model == "*" else total
    return total


def _differences(found: list[Comparison]) -> Iterator[str]:
    yield (
        "\n## Every difference\n\nWhat ccusage has more (or less) because of a rule, where, and in"
        " which file."
    )
    for one in found:
        for rule, changes in one.steps.items():
            if shown := list(_net(changes)):
                yield f"\n### {one.agent}, {one.name}: ccusage {RULES[one.agent][rule]}"
                yield "\n| day | model | tokens | file |\n|---|---|---|---|"
                for change in shown:
                    tokens = " / ".join(f"{count:+,}" for count in change.tokens)
                    yield (
                        f"| {change.day or 'none'} | {change.model or 'none'} | {tokens} |"
                        f" {change.file} |"
                    )


def _net(changes: list[Change]) -> Iterator[Change]:
    """Return the changes without those that only move a call to another file of the same day and
    model."""
    sums: dict[tuple[str, str | None], Tokens] = defaultdict(lambda: NOTHING)
    for change in changes:
        sums[change.day, change.model] = _plus(sums[change.day, change.model], change.tokens)
    return (change for change in changes if any(sums[change.day, change.model]))


def _costs(found: list[Comparison]) -> Iterator[str]:
    yield f"\n## Cost where the tokens are the same\n\nEqual means to {SAME_USD} USD."
    yield (
        "The last column compares ccusage's figure with what the ledger's calls cost by the rules"
        " of ccusage."
    )
    yield (
        "\n| agent | home | model | days | equal | ccusage | runlore | because | by the rules"
        " |\n|---|---|---|---|---|---|---|---|---|"
    )
    for one in found:
        groups: dict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
        for cell in (
            one.equal if any(model != "*" for _, model in one.theirs.costs) else _whole_days(one)
        ):
            if cell in one.theirs.costs:
                theirs, ours = one.theirs.costs[cell].usd, one.ours.costs[cell]
                told = one.told.get(cell)
                why = (
                    ""
                    if _is_same(theirs, ours.usd)
                    else (
                        "the transcript's own costUSD"
                        if told
                        else ", ".join(sorted(ours.why)) or "?"
                    )
                )
                groups[cell[1], why].append((theirs, ours.usd, told or ours.compat))
        for (model, why), rows in sorted(groups.items()):
            sums = [sum(column) for column in zip(*rows, strict=True)]
            shown = [f"{usd / USD:.9f}" for usd in sums]
            proof = "" if not why else "equal" if _is_same(sums[0], sums[2]) else f"**{shown[2]}**"
            row = (
                one.agent,
                one.name,
                model,
                len(rows),
                0 if why else len(rows),
                *shown[:2],
                why,
                proof,
            )
            yield f"| {' | '.join(map(str, row))} |"


def _is_same(one: int, other: int) -> bool:
    return abs(one - other) <= SAME_USD * USD


def _whole_days(one: Comparison) -> list[Cell]:
    days = {day for day, model in one.theirs.tokens if model == "*"}
    return [
        (day, "*")
        for day in sorted(days)
        if one.theirs.tokens[day, "*"] == one.ours.tokens.get((day, "*"))
    ]


def _speed(args: argparse.Namespace, home: Path) -> Iterator[str]:
    """Measure a report of all agents by day.

    For runlore the sync before it is listed separately: it is needed once, and then only for new
    data.
    """
    ours = Runlore(args.python, home, args.scratch / "usage-data")
    env = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "TZ": "UTC",
        "LOG_LEVEL": "0",
        "NO_COLOR": "1",
    }
    raw, first = warm(home), ours.first_sync()
    sides = {
        "runlore": lambda: ours.run("usage", "--json"),
        "ccusage": lambda: run([str(args.ccusage), "daily", "--json", "--offline"], env),
    }
    best = alternate(sides, args.rounds)
    others = list(_reports(ours, args.rounds))
    ours.clear()
    ratio = times(best["ccusage"].wall_s / best["runlore"].wall_s)
    yield f"\n## Time of a report by day, {raw / 1e6:.0f} MB of transcripts in `{home.name}`\n"
    yield "| faster | runlore usage | ccusage daily | the first sync before it |\n|---|---|---|---|"
    yield (
        f"| {ratio} | {seconds(best['runlore'])} | {seconds(best['ccusage'])} | {seconds(first)} |"
    )
    yield from others


REPORTS = (
    "",
    "--by session",
    "--by session --json",
    "--by subagent",
    "--by block",
    "--statusline",
    "--check",
    "--wasted",
    "--wasted --days 30",
)


def _reports(ours: Runlore, rounds: int) -> Iterator[str]:
    """Every kind of report on the same store. The bar is 130 ms from end to end."""
    database = sqlite3.connect(f"file:{ours.data / 'runlore.db'}?mode=ro", uri=True)
    sql = (
        "select uid, count(*) from calls join sessions on number = session group by uid order by 2"
        " desc limit 1"
    )
    longest, calls = database.execute(sql).fetchone()
    (every,) = database.execute("select count(*) from calls").fetchone()
    database.close()
    words = {form: form.split() for form in REPORTS}
    words |= {
        f"--explain LONGEST{more}": ["--explain", longest, *more.split()]
        for more in ("", " --json")
    }
    best = alternate(
        {form: lambda given=given: ours.run("usage", *given) for form, given in words.items()},
        rounds,
    )  # type: ignore[misc]
    yield (
        "\n## Time of other reports on the same store\n\nBar: 130 ms. The longest session has"
        f" {calls:,} of {every:,} calls."
    )
    yield "\n| runlore usage … | |\n|---|---|"
    yield from (f"| {form or 'as it is'} | {seconds(one)} |" for form, one in best.items())


# ── homes ─────────────────────────────────────────────────────────────────────────────────────────


def _stage(corpus: Path, homes: Path) -> list[Path]:
    """Copy transcripts to where their agents would have put them."""
    remove(homes)
    for path in sorted((corpus / "claude-code").rglob("*")):
        if path.suffix in (".jsonl", ".txt", ".json") and path.is_file():
            _stage_claude(path, corpus / "claude-code", homes / "claude" / ".claude" / "projects")
    for path in sorted((corpus / "codex").rglob("*.jsonl")):
        above = next((part for part in path.parents if part.name == "codex-home"), None)
        if above is None:
            _stage_codex(path, homes / "codex" / ".codex" / "sessions")
        else:
            _copy(path, homes / f"codex-{above.parent.name}" / ".codex" / path.relative_to(above))
    for path in sorted((corpus / "grok").rglob("updates.jsonl")):
        slug = re.sub(r"[^A-Za-z0-9]", "-", str(path.parent.parent.relative_to(corpus)))
        for file in path.parent.iterdir():
            if file.is_file():
                _copy(
                    file,
                    homes / "grok" / ".grok" / "sessions" / slug / path.parent.name / file.name,
                )
    return sorted(homes.iterdir()) if homes.is_dir() else []


def _generate(home: Path, mb: float) -> Path:
    """Generate mostly Claude Code transcripts; of the other two, which are small, the same
    number."""
    remove(home)
    sessions = max(20, int(mb))
    command = [
        sys.executable,
        str(BENCH / "generate.py"),
        "--out",
        str(home),
        "--mb",
        str(mb),
        "--files",
        str(sessions),
    ]
    note(run(command, dict(os.environ)).output.strip())
    make_codex(home, sessions)
    make_grok(home, sessions)
    return home


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


if __name__ == "__main__":
    main()
