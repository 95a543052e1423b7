"""Claude Code transcripts made from a seed, for benchmarks: fast, repeatable, and shaped like the
real ones.

    python bench/generate.py --out DIR --mb 300 --files 1000 --seed 1 [--text-heavy]
    python bench/generate.py --out DIR --one 100
    python bench/generate.py --append DIR/.claude/projects/<slug>/<uuid>.jsonl [--word WORD]

`DIR` becomes a home directory: `.claude/projects/<slug>/<uuid>.jsonl`, with
`<uuid>/subagents/agent-*.jsonl` and `<uuid>/tool-results/*.txt` beside it. `--files` counts every
.jsonl file, `--mb` their bytes (10^6). The same arguments give the same bytes, whatever the number
of processes.

What the shape is taken from: 84 MB of real transcripts, 343 files, 34,000 lines (versions 1.0 to
2.1), where
- a line has 2,471 bytes in the mean; results of tools are 22 % of the lines and 47 % of the bytes
  (median 2.2 KB, p90 11 KB, p99 56 KB), calls 22 % / 16 % (median 1.4 KB), replies 10 % / 6 %,
  thinking 7 % / 11 % (mostly its signature), attachments 9 % / 5 %, progress 8 % / 6 %, the rest is
  bookkeeping; of the calls 42 % are Bash, 20 % Edit, 19 % Read;
- text that an index sees (prompts, replies, thinking, input and output of tools) is 0.19 of the
  bytes, 7.3 bytes a word; the rest is the envelope of each line, `toolUseResult` (29 %) and
  signatures;
- distinct words follow 11.8 x n^0.55: 6,700 among the first 100,000 words, 36,500 among all 2.2 M;
  a third occur once. The commonest is 2 % of all, number 100 0.15 %, number 1,000 0.017 %, number
  10,000 0.0005 %: a power of -0.95 that bends to -1.6 near rank 1,000. A tenth of the words are
  numbers, 2 % mix letters and digits, 0.2 % are not ASCII;
- zstd level 1 in blocks of 64 KB leaves 0.26 of the bytes, 0.29 of the text.

The output of `--mb 84 --files 343`: lines of 2,294 bytes; results of tools 24 % of the lines and 62
% of the bytes (median 2.5 KB, p90 14 KB, p99 42 KB), calls 24 % / 16 % (median 1.2 KB), replies 9 %
/ 5 %, thinking 6 % / 8 %; text 0.22 of the bytes, 6.7 bytes a word; 7,700 distinct words among
100,000, 39,600 among 2.8 M, a third of them once; zstd 0.25 and 0.34.

`--text-heavy` is the other end: long answers, thinking in clear, long outputs, no copies of whole
files, so that 0.58 of the bytes are text to index.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from base64 import b64encode
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

# Everything below works on text that is already escaped for JSON: pools of sentences, code and log
# lines are escaped once, and a record is one f-string around parts of them. json.dumps for each
# record would be slower.
NL = "\\n"
# One project per this many megabytes, so that files and sentences recur as in one repository.
PROJECT_MB = 15
SUBAGENT_SHARE = 0.12  # of all files (real: 40 of 343)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make Claude Code transcripts from a seed.")
    parser.add_argument(
        "--out", type=Path, help="becomes a home directory with .claude/projects/ in it"
    )
    parser.add_argument(
        "--mb",
        type=float,
        default=300,
        help="bytes of all transcripts together, in 10^6 (default: 300)",
    )
    parser.add_argument(
        "--files",
        type=int,
        default=1000,
        help="number of .jsonl files, subagents included (default: 1000)",
    )
    parser.add_argument(
        "--one", type=float, metavar="MB", help="a single transcript of this size instead"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text-heavy", action="store_true", help="mostly text that is indexed")
    parser.add_argument(
        "--append",
        type=Path,
        metavar="FILE",
        help="append one turn to this transcript, print its unique word",
    )
    parser.add_argument("--word", help="the unique word of the appended turn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.append:
        print(append_turn(args.append, args.word))
        return
    if not args.out:
        parser.error("one of --out and --append is needed")
    start = time.perf_counter()
    if args.one:
        size = generate(args.out, args.one, 1, args.seed, args.text_heavy, jobs=1)
    else:
        size = generate(args.out, args.mb, args.files, args.seed, args.text_heavy, args.jobs)
    elapsed_s = time.perf_counter() - start
    print(f"{size / 1e6:.1f} MB in {elapsed_s:.1f} s ({size / 1e6 / elapsed_s:.0f} MB/s)")


def generate(
    out: Path, mb: float, files: int, seed: int = 1, text_heavy: bool = False, jobs: int = 1
) -> int:
    """Write the tree below `out` and return the bytes of its transcripts."""
    vocabulary()  # before the processes are forked, so that they share it
    count = max(1, min(files, round(mb / PROJECT_MB)))
    mains = max(count, files - int(files * SUBAGENT_SHARE))
    plan_rng = random.Random(f"{seed}/plan")
    weights = [plan_rng.lognormvariate(0, 1.3) for _ in range(mains)]
    scale = mb * 1e6 / sum(weights)
    sessions = [[max(1500, int(weight * scale)), 0] for weight in weights]
    for _ in range(files - mains):  # the longer a session, the more subagents it has started
        plan_rng.choices(sessions, weights)[0][1] += 1
    tasks = [(out, seed, number, text_heavy, sessions[number::count]) for number in range(count)]
    if jobs == 1 or count == 1:
        return sum(map(_write_project, tasks))
    with ProcessPoolExecutor(jobs) as pool:
        return sum(pool.map(_write_project, tasks))


def _write_project(task: tuple[Path, int, int, bool, list[list[int]]]) -> int:
    out, seed, number, text_heavy, sessions = task
    wanted = sum(size for size, _ in sessions)
    project = Project(seed, number, wanted, text_heavy)
    written = spent = 0
    for target, subagents in sessions:
        # Bytes that earlier sessions used beyond their budget are subtracted from later ones.
        budget = max(1500, target - (written - spent) // 4)
        written += Session(project, out, budget, subagents).write()
        spent += target
    return written


def append_turn(path: Path, word: str | None = None) -> str:
    """Append one turn, as its agent would, and return a word that occurs nowhere else. Reads only
    the end of the file."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2_000_000))
        tail = file.read().splitlines()
    last = next(
        record
        for record in map(json.loads, reversed(tail[-2000:]))
        if "uuid" in record and "cwd" in record
    )
    word = word or f"needle{size:x}{random.getrandbits(32):08x}"
    session = Session(_append_project(), None, budget=0, subagents=0)
    session.rng.seed(f"{path.name}/{size}")  # ids that differ from those of earlier appends
    session.resume(last)
    session.turn(steps=4, word=word)
    with path.open("ab") as file:
        file.write(session.drain())
    return word


@cache
def _append_project() -> Project:
    return Project(0, 0, 200_000, False)


# --- words ----------------------------------------------------------------------------------------

_COMMON = """
the to git if in a of and err is for string t test s name return nil error not path file with ctx
go import this be from that it on or id type self i you true src data status json func def none no
let use as add new output run at py an config should result ok are content session const int str
list can lines get key user set by value when code command message was so check all now options
line args read files was but false async first which branch assert host one main log default tests
fix repo will has state only commit context time out parse else more update have index write need
null after source before remote cmd refs input text count then docs call where we would version
number make how create server token what into some feature also print each len map build change
current review look plan agent tool issue found start any remove entry using async await export
module package function class method field struct interface request response client header body
timeout retry cache store query table row column schema migration thread lock queue worker event
handler listener stream buffer chunk offset length size limit page cursor sort filter group merge
diff patch edit delete insert select join union split trim parser lexer node tree graph edge
vertex leaf root parent child sibling depth level order match pattern regex escape quote render
view template style layout button form modal label icon image upload download link route redirect
proxy gateway cluster deploy release rollout rollback health probe metric trace span alert
dashboard budget quota policy role scope grant secret because however therefore instead already
still never always often during between against without within across though
"""
COMMON = list(dict.fromkeys(_COMMON.split()))
SYLLABLES = [
    c + v
    for c in (*"bdfgklmnprstvz", "ch", "br", "tr", "st", "pl", "gr")
    for v in (*"aeiou", "an", "er")
]
FOREIGN = [
    "über",
    "größe",
    "naïve",
    "données",
    "файл",
    "ошибка",
    "запрос",
    "設定",
    "検索",
    "結果",
    "错误",
    "测试",
    "数据",
    "오류",
]
VOCABULARY_SIZE = 150_000


def pseudo_word(number: int) -> str:
    """Return a pronounceable word, different for every number; the first 2.7 million have three
    syllables."""
    base = len(SYLLABLES)
    length, room = 3, base**3
    while number >= room:
        number -= room
        length, room = length + 1, room * base
    number = number * 7919 % room  # 7919 is prime to 140: neighbours do not look alike
    word = ""
    for _ in range(length):
        number, digit = divmod(number, base)
        word += SYLLABLES[digit]
    return word


@cache
def vocabulary() -> tuple[list[str], list[float]]:
    """Return all words by decreasing frequency, and their cumulated weights."""
    words = list(COMMON)
    for rank in range(len(COMMON), VOCABULARY_SIZE):
        word = pseudo_word(rank)
        if rank % 9 == 1:
            word = str(rank * 7 // 9 - 200)
        elif rank % 5 == 2:
            word += COMMON[rank % len(COMMON)].capitalize()
        elif rank % 8 == 3 and rank > 1500:
            word = f"{word[:2]}{rank:x}"
        elif rank % 14 == 5 and rank > 1500:
            word = FOREIGN[rank % len(FOREIGN)] + word[:3]
        words.append(word)
    bend = 1000
    weights = (
        1 / (r + 4) ** 0.95 if r < bend else bend**0.7 / (r + 4) ** 1.65
        for r in range(VOCABULARY_SIZE)
    )
    return words, list(accumulate(weights))


def escape(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


# --- one repository -------------------------------------------------------------------------------

CODE = {
    "py": (
        """
def {a}_{b}(self, {c}: str) -> {D}:
    if {a} is None or not {b}.{c}:
        raise {D}Error(f"{a} {b}: {{{c}}}")
    return self.{a}({b}, {c}={n})
    for {a} in {b}.{c}():
        {a}.{b}["{c}"] = {d}({a}, {n})
    # {a} {b} before the {c} is {d}

from {a}.{b} import {D}, {c}
        assert {a}({b}) == {n}, "{c} {d}"
    with open({a}.{b}, "rb") as {c}:
        {a} = [{b} for {b} in {c} if {b}.{d} > {n}]
"""
    ),
    "go": (
        """
func (s *{D}) {a}{B}(ctx context.Context, {c} string) error {{
\tif err := s.{a}.{b}(ctx, {c}); err != nil {{
\t\treturn fmt.Errorf("{a} {b} %s: %w", {c}, err)
\t}}
}}

\tfor _, {a} := range s.{b} {{
\t\t{a}.{c} = append({a}.{c}, {d}({n}))
\t{a}, ok := {b}[{c}]
\tt.Run("{a} {b} {c}", func(t *testing.T) {{
\t// {a} the {b} that {c} left behind
\trequire.Equal(t, {n}, len({a}.{b}))
"""
    ),
    "ts": (
        """
export async function {a}{B}({c}: {D}): Promise<{D}[]> {{
  const {a} = await this.{b}.{c}({{ {d}: {n} }});
  if (!{a}?.{b}) {{
    throw new Error(`{a} ${{{b}}} {c}`);
  }}
}}

import {{ {D}, {a} }} from './{b}/{c}';
  return {a}.map(({b}) => ({{ ...{b}, {c}: '{d}' }}));
    expect({a}.{b}).toBe({n}); // {c}
      <{D} {a}={{{b}}} className="{c} {d}" />
"""
    ),
}
BOILERPLATE = {
    "py": (
        """


    def __init__(self) -> None:
        return None
        else:
            continue
    try:
    @property
    except (OSError, ValueError) as error:
            raise RuntimeError("unreachable") from error
"""
    ),
    "go": (
        """


}
\t}
\t\t}
\t\t\treturn nil, err
\tif err != nil {
\t\treturn err
\t})
\treturn nil
\tdefer s.mu.Unlock()
\t\tt.Fatalf("unexpected error: %v", err)
"""
    ),
    "ts": (
        """


}
  }
    }
  });
      return undefined;
  } catch (error: unknown) {
    await Promise.all(pending);
      </div>
"""
    ),
}
LOGS = """
2026-03-{e:02d}T0{f}:{m:02d}:11.{n:03d}Z INFO {a}.{b}: {c} {d} in {n} ms (id={h})
{a}/{b}/{c}.{x}:{n}:{f}: warning: {d} {a} is never {b}
 M {a}/{b}/{c}.{x}
{h} {a} {b}: {c} the {d}
-rw-r--r-- 1 dev dev {n} Mar {e} 0{f}:{m:02d} {a}_{b}.{x}
[{n}/{m}] Building {a}/{b}/{c}.{x}
    at {a}.{b} ({c}/{d}.{x}:{n}:{f})
+    {a} = {b}.{c}({d}, {n})
-    {a} = {b}.{c}({d})
 {a}/{b}/{c}_{d}.{x} | {n} {p}
GET /api/{a}/{b}?{c}={n} 200 {m}ms {h}
ok  \t{a}/{b}/{c}\t0.{n:03d}s
{a}/test_{b}.{x}::test_{c}_{d} PASSED [ {m}%]
"""


class Project:
    """The shared content of one repository's sessions: files, and pools of sentences, code and
    log lines."""

    def __init__(self, seed: int, number: int, size_bytes: int, text_heavy: bool) -> None:
        self.rng = rng = random.Random(f"{seed}/project/{number}")
        self.number = number
        self.text_heavy = text_heavy
        # the next word nobody has used
        self.fresh = (seed % 1000 * 1_000 + number) * 20_000 + VOCABULARY_SIZE
        self.name = f"{pseudo_word(rng.randrange(9000))}-{COMMON[rng.randrange(60, len(COMMON))]}"
        self.cwd = f"/home/dev/src/{self.name}"
        self.slug = self.cwd.replace("/", "-")
        self.language = rng.choice(list(CODE))
        # A sentence occurs several times in a project: drawing every word of every text would be
        # slow.
        share = 0.06 if text_heavy else 0.01
        self.sentences = self._sentences(max(6_000, int(size_bytes * share / 7)))
        self.common_code = [escape(line) for line in BOILERPLATE[self.language].split("\n")[:-1]]
        self.code = self._lines(
            CODE[self.language].strip("\n").split("\n"), max(1_500, size_bytes // 4_000)
        )
        self.logs = self._lines(
            LOGS.strip("\n").split("\n"), max(1_500, size_bytes // (2_000 if text_heavy else 3_000))
        )
        self.files = [self._file() for _ in range(24 + size_bytes // 400_000)]

    def draw(self, count: int) -> list[str]:
        words, cumulated = vocabulary()
        return self.rng.choices(words, cum_weights=cumulated, k=count)

    def _sentences(self, words: int) -> list[str]:
        rng, drawn, sentences, at = self.rng, self.draw(words), [], 0
        ends = [". ", ". ", ". ", ": ", f".{NL}{NL}", f".{NL}- ", f".{NL}", ", "]
        while at < len(drawn):
            length = rng.randint(5, 20)
            words_here = drawn[at : at + length]
            if length % 4 == 0:
                words_here[0] = f"`{words_here[0]}`"
            sentences.append(" ".join(words_here).capitalize() + rng.choice(ends))
            at += length
        return sentences

    def _lines(self, templates: list[str], count: int) -> list[str]:
        rng, drawn = self.rng, iter(self.draw(4 * count))
        lines = []
        for a, b, c, d in zip(drawn, drawn, drawn, drawn, strict=True):
            number = rng.randrange(1, 900)
            line = rng.choice(templates).format(
                a=a, b=b, c=c, d=d, B=b.capitalize(), D=d.capitalize(), n=number, m=number % 60,
                e=number % 28 + 1, f=number % 10,
                h=f"{rng.getrandbits(32):08x}" if number % 3 else "0c1d2e3f", x=self.language,
                p="+" * (number % 40),
            )  # fmt: skip
            lines.append(escape(line))
        return lines

    def _file(self) -> tuple[str, list[str]]:
        a, b, c = self.draw(3)
        length = min(2_000, int(self.rng.lognormvariate(math.log(200), 0.9)) + 5)
        return f"{self.cwd}/{a}/{b}_{c}.{self.language}", self.code_lines(self.rng, length)

    def code_lines(self, rng: random.Random, count: int) -> list[str]:
        """Return code lines: half of them are in every file, the others come from one
        neighbourhood."""
        near = rng.randrange(len(self.code))
        own = self.code[near : near + 10 + count // 3] or self.code[:10]
        return [
            rng.choice(self.common_code) if rng.random() < 0.5 else rng.choice(own)
            for _ in range(count)
        ]

    def new_words(self, count: int) -> list[str]:
        self.fresh += count
        return [pseudo_word(number) for number in range(self.fresh - count, self.fresh)]


# --- one session ----------------------------------------------------------------------------------

MODELS = ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-6", "claude-haiku-4-5-20251001"]
VERSIONS = ["2.1.91", "2.1.74", "2.1.91", "2.1.74", "2.1.112", "2.0.55", "1.0.113"]
TOOLS = (
    ["bash"] * 42
    + ["edit"] * 20
    + ["read"] * 19
    + ["todo"] * 8
    + ["write"] * 3
    + ["grep"] * 4
    + ["glob"] * 2
    + ["task"] * 2
)
REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was"
    " a file edit, the new_string was NOT written to the file). STOP what you are doing and wait"
    " for the user to tell you how to proceed."
)
ALPHANUMERIC = bytes.maketrans(b"+/", b"Qz")


class Session:
    """One transcript, written turn by turn until its budget of bytes is used up; its subagents are
    sessions too."""

    def __init__(
        self,
        project: Project,
        out: Path | None,
        budget: int,
        subagents: int,
        parent: Session | None = None,
    ) -> None:
        self.project = project
        self.rng = random.Random(project.rng.getrandbits(64))
        self.out, self.budget, self.subagents = out, budget, subagents
        self.size = self.pending = 0
        self.lines: list[str] = []
        self.last: str | None = None
        self.context = 20_000
        self.since_compaction = 0
        self.sidechain = parent is not None
        if parent:
            self.id, self.model, self.version, self.branch, self.now_ms = (
                parent.id, parent.model, parent.version, parent.branch, parent.now_ms)  # fmt: skip
            self.agent_id = f"a{self.rng.getrandbits(64):016x}"
        else:
            self.id, self.model, self.version = (
                self.uuid(),
                self.rng.choice(MODELS),
                self.rng.choice(VERSIONS),
            )
            self.branch = self.rng.choice(
                ["main", "main", f"dev/{self.rng.choice(COMMON)}-{self.rng.choice(COMMON)}"]
            )
            self.now_ms = 1_770_000_000_000 + self.rng.randrange(90 * 86_400_000)
            self.agent_id = ""
        if subagents:
            self.version = VERSIONS[0]
        self.nickname = "-".join(self.rng.choices(COMMON[60:], k=3))
        self.prompt_id = self.uuid()
        self.words = project.new_words(max(4, min(4_000, budget // 1_500)))
        self.title = escape(" ".join(self.rng.choices(COMMON, k=4) + self.words[:1]).capitalize())
        self.files = self.rng.sample(project.files, min(len(project.files), 4 + budget // 60_000))
        known = 40 + budget // (200 if project.text_heavy else 3_000)
        self.sentences = self.rng.sample(project.sentences, min(len(project.sentences), known))
        self.near_log = self.rng.randrange(len(project.logs))
        self._envelope(project.cwd)

    def _envelope(self, cwd: str) -> None:
        agent = f'"agentId":"{self.agent_id}",' if self.agent_id else ""
        nickname = f',"slug":"{self.nickname}"' if self.version > "2.1.8" else ""
        self.common = (
            f'"userType":"external","entrypoint":"cli",{agent}"cwd":"{cwd}",'
            f'"sessionId":"{self.id}",'
            f'"version":"{self.version}","gitBranch":"{self.branch}"{nickname}}}'
        )
        self.cwd = cwd

    def write(self) -> int:
        """Write the transcript and everything beside it; return its size with that of its
        subagents."""
        assert self.out is not None
        folder = self.out / ".claude" / "projects" / self.project.slug
        path = (
            folder / self.id / "subagents" / f"agent-{self.agent_id}.jsonl"
            if self.sidechain
            else folder / f"{self.id}.jsonl"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb", buffering=0) as file:
            self.opening()
            while self.size < self.budget or self.subagents:
                self.turn()
                if self.pending > 4_000_000:
                    file.write(self.drain())
            self.closing()
            file.write(self.drain())
        if self.sidechain:
            meta = {"agentType": "general-purpose", "description": self.title}
            path.with_suffix(".meta.json").write_text(json.dumps(meta))
        return self.size

    def resume(self, last: dict[str, str]) -> None:
        """Continue the session whose last record this is."""
        self.id, self.branch, self.version, self.last = (
            last["sessionId"],
            last["gitBranch"],
            last["version"],
            last["uuid"],
        )
        self.now_ms = int(datetime.fromisoformat(last["timestamp"]).timestamp() * 1000)
        self._envelope(last["cwd"])

    def drain(self) -> bytes:
        data = "".join(self.lines).encode()
        self.lines.clear()
        self.pending = 0
        return data

    # turns

    def opening(self) -> None:
        if self.sidechain:
            return
        if self.old:
            self.bare(f'"type":"summary","summary":"{self.title}","leafUuid":"{self.uuid()}"')
        self.bare(f'"type":"permission-mode","permissionMode":"default","sessionId":"{self.id}"')
        if not self.old and self.budget > 40_000:
            names = '","'.join(self.rng.choices(COMMON, k=12))
            self.chain(
                f'"attachment":{{"type":"deferred_tools_delta","addedNames":["{names}"],'
                f'"removedNames":[]}},"type":"attachment"'
            )
            listing = NL.join(
                f"- {name}: {self.prose(150)}"
                for name in self.rng.choices(COMMON, k=self.rng.randint(8, 60))
            )
            self.chain(
                f'"attachment":{{"type":"skill_listing","content":"{listing}","isInitial":true}},'
                f'"type":"attachment"'
            )

    def turn(self, steps: int | None = None, word: str = "") -> None:
        rng = self.rng
        self.now_ms += rng.randrange(5_000, 600_000)
        started_ms, self.prompt_id = self.now_ms, self.uuid()
        if self.since_compaction > 2_500_000:
            self.compaction()
        if rng.random() < 0.3 and not self.sidechain:
            self.queued()
        self.prompt(word)
        if not self.sidechain:
            self.bare(
                f'"type":"file-history-snapshot","messageId":"{self.last}",'
                f'"snapshot":{{"messageId":"{self.last}",'
                f'"trackedFileBackups":{{{self.backups()}}},"timestamp":"{self.stamp()}"}},'
                f'"isSnapshotUpdate":false'
            )
        if rng.random() < 0.5:
            self.chain(
                '"attachment":{"type":"task_reminder","content":[],"itemCount":0},'
                '"type":"attachment"'
            )
        if steps is None:
            is_short = self.budget < 8_000 and not self.subagents  # a question and its answer
            steps = 0 if is_short else min(60, 1 + int(rng.expovariate(1 / 7)))
        for _ in range(steps):
            self.step()
            if 0 < self.budget <= self.size:
                break
        if rng.random() < 0.04:
            marker = '[{"type":"text","text":"[Request interrupted by user]"}]'
            self.chain(
                f'"promptId":"{self.prompt_id}","type":"user","message":{{"role":"user",'
                f'"content":{marker}}}'
            )
        else:
            answer = self.prose(
                rng.lognormvariate(math.log(8_000 if self.project.text_heavy else 300), 1.0)
            )
            self.message([f'{{"type":"text","text":"{answer} {word}"}}'], "end_turn")
        if not self.sidechain:
            self.end_of_turn(started_ms)

    def prompt(self, word: str) -> None:
        length = self.rng.lognormvariate(math.log(3_000 if self.project.text_heavy else 160), 1.4)
        content = f'"{self.prose(min(length, 40_000))} {word}"'
        mode = "" if self.sidechain else '"permissionMode":"default",'
        self.chain(
            f'"promptId":"{self.prompt_id}","type":"user","message":{{"role":"user",'
            f'"content":{content}}}',
            mode,
        )

    def step(self) -> None:
        """One API message, a line for each of its blocks, and the results of its calls."""
        rng, blocks = self.rng, []
        heavy = self.project.text_heavy
        if rng.random() < (0.6 if heavy else 0.34):
            thought = (
                self.prose(rng.lognormvariate(math.log(4_000 if heavy else 900), 0.9))
                if heavy or self.old
                else ""
            )
            signature = b64encode(
                rng.randbytes(
                    min(50_000, int(rng.lognormvariate(math.log(120 if heavy else 700), 1.15)))
                )
            ).decode()
            blocks.append(f'{{"type":"thinking","thinking":"{thought}","signature":"{signature}"}}')
        if rng.random() < 0.32:
            text = self.prose(rng.lognormvariate(math.log(2_500 if heavy else 110), 0.8))
            blocks.append(f'{{"type":"text","text":"{text}"}}')
        calls = []
        for _ in range(1 if rng.random() < 0.85 else rng.randint(2, 4)):
            name = rng.choice(TOOLS)
            if self.subagents and (
                name == "task" or self.size > self.budget or rng.random() < 0.05
            ):
                name = "agent"
            call_id = f"toolu_01{self.token(22)}"
            calls.append((call_id, getattr(self, "tool_" + name)()))
        blocks += [
            f'{{"type":"tool_use","id":"{call_id}","name":"{tool.name}","input":{tool.input},'
            f'"caller":{{"type":"direct"}}}}'
            for call_id, tool in calls
        ]
        uuids = self.message(blocks, "tool_use")[-len(calls) :]
        for (call_id, tool), uuid in zip(calls, uuids, strict=True):
            self.result(call_id, tool, uuid)

    def message(self, blocks: list[str], stop_reason: str) -> list[str]:
        rng = self.rng
        message_id, request_id = f"msg_01{self.token(22)}", f"req_011{self.token(21)}"
        written = rng.randrange(200, 4_000)
        output = sum(map(len, blocks)) // 4 + 5
        first = (
            f'"usage":{{"input_tokens":{rng.randrange(1, 9)},'
            f'"cache_creation_input_tokens":{written},'
            f'"cache_read_input_tokens":{self.context},'
        )
        self.context = min(190_000, self.context + written)
        uuids = []
        for number, block in enumerate(blocks, 1):
            self.now_ms += rng.randrange(300, 6_000)
            final = number == len(blocks)
            usage = (
                f'{first}"output_tokens":{output},"server_tool_use":{{"web_search_requests":0,'
                f'"web_fetch_requests":0}},'
                f'"service_tier":"standard",'
                f'"cache_creation":{{"ephemeral_1h_input_tokens":{written},'
                f'"ephemeral_5m_input_tokens":0}},'
                '"inference_geo":"","iterations":[],"speed":"standard"}'
                if final
                else (
                    f'{first}"cache_creation":{{"ephemeral_5m_input_tokens":0,'
                    f'"ephemeral_1h_input_tokens":{written}}},'
                    f'"output_tokens":{min(output, 8)},"service_tier":"standard",'
                    f'"inference_geo":"not_available"}}'
                )
            )
            stop = f'"{stop_reason}"' if final else "null"
            uuids.append(
                self.chain(
                    f'"message":{{"model":"{self.model}","id":"{message_id}","type":"message",'
                    f'"role":"assistant","content":[{block}],'
                    f'"stop_reason":{stop},"stop_sequence":null,"stop_details":null,{usage}}},'
                    f'"requestId":"{request_id}","type":"assistant"'
                )
            )
        return uuids

    def result(self, call_id: str, tool: Tool, uuid: str) -> None:
        rng = self.rng
        if rng.random() < 0.27 and not self.old:
            self.now_ms += 40
            self.chain(
                f'"attachment":{{"type":"hook_success","hookName":"PreToolUse:{tool.name}",'
                f'"toolUseID":"{call_id}","hookEvent":"PreToolUse","content":"","stdout":"",'
                f'"stderr":"","exitCode":0,'
                f'"command":"${{CLAUDE_PROJECT_DIR}}/.claude/hooks/check.sh'
                f' pre-tool","durationMs":{rng.randrange(9, 400)}}},"type":"attachment"'
            )
        if self.version == "2.1.74" and tool.name == "Bash" and rng.random() < 0.6:
            self.bash_progress(call_id, tool)
        self.now_ms += rng.randrange(20, 9_000)
        content, structured, error = tool.content, tool.structured, tool.error
        if rng.random() < 0.006:
            content, error = f'"{REJECTED}"', True
            structured = '"User rejected tool use"'
        flag = ',"is_error":true' if error else ""
        block = f'{{"tool_use_id":"{call_id}","type":"tool_result","content":{content}{flag}}}'
        self.chain(
            f'"promptId":"{self.prompt_id}","type":"user","message":{{"role":"user",'
            f'"content":[{block}]}}',
            f'"toolUseResult":{structured},"sourceToolAssistantUUID":"{uuid}",',
        )

    def bash_progress(self, call_id: str, tool: Tool) -> None:
        output = tool.content[1:4_000].rpartition(NL)[0]
        for second in range(3, 3 + self.rng.randint(1, 9)):
            self.chain(
                f'"type":"progress","data":{{"type":"bash_progress","output":"",'
                f'"fullOutput":"{output}","elapsedTimeSeconds":{second},'
                f'"totalLines":0,"totalBytes":{len(output)},"taskId":"b{self.token(8)}"}},'
                f'"toolUseID":"bash-progress-{second - 3}",'
                f'"parentToolUseID":"{call_id}"'
            )

    def queued(self) -> None:
        for operation, content in (("enqueue", f',"content":"{self.prose(100)}"'), ("dequeue", "")):
            self.bare(
                f'"type":"queue-operation","operation":"{operation}","timestamp":"{self.stamp()}",'
                f'"sessionId":"{self.id}"{content}'
            )

    def end_of_turn(self, started_ms: int) -> None:
        rng = self.rng
        if rng.random() < 0.46:
            self.chain(
                '"type":"system","subtype":"stop_hook_summary","hookCount":1,'
                '"hookInfos":[{"command":"make'
                ' lint","durationMs":812}],'
                '"hookErrors":[],"preventedContinuation":false,"stopReason":"","hasOutput":false,'
                '"level":"suggestion"'
            )
        if rng.random() < 0.6:
            self.chain(
                f'"type":"system","subtype":"turn_duration",'
                f'"durationMs":{self.now_ms - started_ms},"messageCount":{rng.randrange(4, 90)},'
                '"isMeta":false'
            )
        if rng.random() < 0.12:
            self.chain(
                f'"type":"system","subtype":"away_summary","content":"{self.prose(250)}",'
                f'"isMeta":false'
            )
        if rng.random() < 0.03:
            self.chain(
                '"type":"system","subtype":"api_error","level":"error","error":{"message":"529'
                ' overloaded_error","status":529,"formatted":"529'
                ' Overloaded"},"retryInMs":593.97,"retryAttempt":1,"maxRetries":10'
            )
        self.bare(f'"type":"last-prompt","lastPrompt":"{self.prose(110)}","sessionId":"{self.id}"')
        self.bare(f'"type":"ai-title","aiTitle":"{self.title}","sessionId":"{self.id}"')
        self.bare(f'"type":"mode","mode":"normal","sessionId":"{self.id}"')
        self.bare(f'"type":"permission-mode","permissionMode":"default","sessionId":"{self.id}"')

    def closing(self) -> None:
        if not self.sidechain and self.rng.random() < 0.1:
            self.bare(
                f'"type":"pr-link","sessionId":"{self.id}","prNumber":{self.rng.randrange(2000)},'
                f'"prUrl":'
                f'"https://example.com/dev/{self.project.name}/pull/1",'
                f'"prRepository":"dev/{self.project.name}","timestamp":"{self.stamp()}"'
            )

    def compaction(self) -> None:
        before, self.last = self.last, None
        self.since_compaction = 0
        self.chain(
            '"type":"system","subtype":"compact_boundary","content":"Conversation'
            ' compacted","isMeta":false,"level":"info",'
            f'"compactMetadata":{{"trigger":"auto","preTokens":{self.context}}}',
            f'"logicalParentUuid":"{before}",',
        )
        summary = (
            "This session is being continued from a previous conversation that ran out of"
            f" context.{NL}{self.prose(9_000)}"
        )
        self.chain(
            f'"promptId":"{self.prompt_id}","type":"user","message":{{"role":"user",'
            f'"content":"{summary}"}}',
            '"isVisibleInTranscriptOnly":true,"isCompactSummary":true,',
        )
        self.context = 20_000

    # tools: what each is asked and what comes back

    def tool_bash(self) -> Tool:
        rng, project = self.rng, self.project
        path, _ = rng.choice(self.files)
        relative = path[len(project.cwd) + 1 :]
        kind, error = rng.random(), False
        length = rng.lognormvariate(math.log(1_200 if project.text_heavy else 320), 1.5)
        output = self.take(project.logs, min(length, 120_000))
        if kind < 0.18:
            command, output, error = self.test_run(relative, output)
        elif kind < 0.26:
            body = self.prose(rng.lognormvariate(math.log(500), 0.8))
            command = f"git add -A && git commit -m '{body}'"
        elif kind < 0.5:
            commands = ["git status --short", "git diff --stat HEAD~1", "git log --oneline -20"]
            command = f"{rng.choice(commands)} -- {relative}"
        elif kind < 0.75:
            command = (
                f"rg -n {rng.choice(self.words)} {relative.split('/')[0]} | head"
                f" -{rng.randrange(10, 80)}"
            )
        else:
            command = (
                f"cd {self.cwd} && sed -n '{rng.randrange(400)},+40p' {relative} && make"
                f" {rng.choice(COMMON)} 2>&1 | tail -40"
            )
        if not error and rng.random() < 0.04:
            output, error = f"Exit code {rng.choice([1, 1, 2, 127, 128])}{NL}{output}", True
        asked = (
            f'{{"command":"{command}",'
            f'"description":"{" ".join(rng.choices(COMMON, k=5)).capitalize()}"}}'
        )
        if error:
            return Tool("Bash", asked, f'"{output}"', f'"Error: {output}"', error=True)
        if len(output) > 30_000:
            return self.overflow(asked, output)
        structured = (
            f'{{"stdout":"{output}","stderr":"","interrupted":false,"isImage":false,'
            f'"noOutputExpected":false}}'
        )
        return Tool("Bash", asked, f'"{output}"', structured)

    def test_run(self, relative: str, output: str) -> tuple[str, str, bool]:
        rng = self.rng
        command = {
            "py": f"python -m pytest -q {relative}",
            "go": "go test ./...",
            "ts": "npm test -- --run",
        }[self.project.language]
        passed, seconds = rng.randrange(3, 400), rng.randrange(90)
        if rng.random() < 0.7:
            ends = {
                "py": f"{passed} passed in {seconds}.21s",
                "go": f"ok  \\t{relative}\\t{seconds}.1s",
                "ts": f"Tests  {passed} passed",
            }
            return command, f"{output}{NL}{ends[self.project.language]}", False
        word, wanted = rng.choice(self.words), rng.randrange(900)
        failed = rng.randrange(1, 6)
        trace = (
            f"Exit code 1{NL}{output}{NL}{relative}:{wanted}: in test_{word}{NL}    assert"
            f" {word}.count == {wanted}{NL}E   AssertionError: expected {wanted}, got"
            f" {rng.randrange(900)}{NL}"
        )
        ends = {
            "py": f"{failed} failed, {passed} passed in {seconds}.21s",
            "go": f"--- FAIL: Test{word.capitalize()} (0.01s){NL}FAIL",
            "ts": f"Tests  {failed} failed | {passed} passed",
        }
        return command, trace + ends[self.project.language], True

    def overflow(self, asked: str, output: str) -> Tool:
        name = f"b{self.token(8)}.txt"
        saved = f"{self.cwd}/.claude/projects/{self.project.slug}/{self.id}/tool-results/{name}"
        if self.out:
            path = (
                self.out
                / ".claude"
                / "projects"
                / self.project.slug
                / self.id
                / "tool-results"
                / name
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.loads(f'"{output}"'))
        preview = output[:2_000].rpartition(NL)[0]
        head = f"Output too large ({len(output) / 1024:.1f}KB). Full output saved to: {saved}"
        stdout = output[:30_000].rpartition(NL)[0]
        return Tool(
            "Bash",
            asked,
            f'"<persisted-output>{NL}{head}{NL}{NL}Preview (first'
            f' 2KB):{NL}{preview}{NL}...{NL}</persisted-output>"',
            f'{{"stdout":"{stdout}","stderr":"","interrupted":false,"isImage":false,'
            f'"noOutputExpected":false,'
            f'"persistedOutputPath":"{saved}","persistedOutputSize":{len(output)}}}',
        )

    def tool_read(self) -> Tool:
        rng = self.rng
        path, lines = rng.choice(self.files)
        if rng.random() < 0.45:
            start, count = 1, len(lines)
            asked = f'{{"file_path":"{path}"}}'
        else:
            start, count = rng.randint(1, len(lines)), rng.choice([20, 30, 50, 80, 120])
            asked = f'{{"file_path":"{path}","offset":{start},"limit":{count}}}'
        part = lines[start - 1 : start - 1 + count]
        numbered = NL.join([f"{number}\\t{line}" for number, line in enumerate(part, start)])
        structured = (
            f'{{"type":"text","file":{{"filePath":"{path}","content":"{NL.join(part)}",'
            f'"numLines":{len(part)},"startLine":{start},'
            f'"totalLines":{len(lines)}}}}}'
        )
        return Tool("Read", asked, f'"{numbered}"', structured)

    def tool_edit(self) -> Tool:
        rng = self.rng
        path, lines = rng.choice(self.files)
        at = rng.randrange(len(lines))
        old = lines[at : at + 1 + int(rng.expovariate(1 / 9))]
        new = self.project.code_lines(rng, 1 + int(rng.expovariate(1 / 16)))
        new[0] += f" {rng.choice(self.words)}"
        before, after = NL.join(old), NL.join(new)
        asked = (
            f'{{"replace_all":false,"file_path":"{path}","old_string":"{before}",'
            f'"new_string":"{after}"}}'
        )
        if rng.random() < 0.015:
            text = (
                "<tool_use_error>File has not been read yet. Read it first before writing to"
                " it.</tool_use_error>"
            )
            return Tool("Edit", asked, f'"{text}"', f'"Error: {text[16:-17]}"', error=True)
        original = "null" if self.project.text_heavy else f'"{NL.join(lines)}"'
        patch = ",".join(
            [f'" {line}"' for line in lines[max(0, at - 3) : at]]
            + [f'"-{x}"' for x in old]
            + [f'"+{x}"' for x in new]
        )
        lines[at : at + len(old)] = new
        del lines[2_000:]
        structured = (
            f'{{"filePath":"{path}","oldString":"{before}","newString":"{after}",'
            f'"originalFile":{original},"structuredPatch":[{{'
            f'"oldStart":{at + 1},"oldLines":{len(old) + 3},"newStart":{at + 1},'
            f'"newLines":{len(new) + 3},"lines":[{patch}]}}],'
            '"userModified":false,"replaceAll":false}'
        )
        return Tool("Edit", asked, f'"The file {path} has been updated successfully."', structured)

    def tool_write(self) -> Tool:
        word = self.rng.choice(self.words)
        path = f"{self.project.cwd}/{self.rng.choice(COMMON)}/{word}.{self.project.language}"
        content = self.take(self.project.code, self.rng.lognormvariate(math.log(2_300), 0.9))
        structured = (
            f'{{"type":"create","filePath":"{path}","content":"{content}","structuredPatch":[],'
            f'"originalFile":null}}'
        )
        return Tool(
            "Write",
            f'{{"file_path":"{path}","content":"{content}"}}',
            f'"File created successfully at: {path}"',
            structured,
        )

    def tool_grep(self) -> Tool:
        found = self.take(self.project.logs, self.rng.lognormvariate(math.log(500), 1.2))
        asked = f'{{"pattern":"{self.rng.choice(self.words)}","output_mode":"content","-n":true}}'
        structured = (
            f'{{"mode":"content","numFiles":0,"filenames":[],"content":"{found}",'
            f'"numLines":{found.count(NL) + 1}}}'
        )
        return Tool("Grep", asked, f'"{found}"', structured)

    def tool_glob(self) -> Tool:
        names = [
            path for path, _ in self.rng.choices(self.project.files, k=self.rng.randint(1, 20))
        ]
        listed = '","'.join(names)
        structured = (
            f'{{"filenames":["{listed}"],"durationMs":12,"numFiles":{len(names)},'
            f'"truncated":false}}'
        )
        return Tool(
            "Glob",
            f'{{"pattern":"**/*{self.rng.choice(COMMON)}*"}}',
            f'"{NL.join(names)}"',
            structured,
        )

    def tool_todo(self) -> Tool:
        states = ["completed", "in_progress", "pending"]
        todos = ",".join(
            f'{{"content":"{self.prose(60)}","status":"{state}","activeForm":"{self.prose(50)}"}}'
            for state in states + states[2:] * self.rng.randint(0, 4)
        )
        reply = (
            '"Todos have been modified successfully. Ensure that you continue to use the todo list'
            ' to track your progress."'
        )
        return Tool(
            "TodoWrite", f'{{"todos":[{todos}]}}', reply, f'{{"oldTodos":[],"newTodos":[{todos}]}}'
        )

    def tool_task(self) -> Tool:
        """A subagent of the old kind, inside this file, or one whose file is gone."""
        prompt, answer = self.prose(1_500), self.prose(2_500)
        if self.old and not self.sidechain:
            kept, self.last, self.sidechain = self.last, None, True
            self.chain(f'"type":"user","message":{{"role":"user","content":"{prompt}"}}')
            self.message([f'{{"type":"text","text":"{answer}"}}'], "end_turn")
            self.last, self.sidechain = kept, False
        return self._agent("Task", prompt, answer, f"a{self.rng.getrandbits(64):016x}")

    def tool_agent(self) -> Tool:
        """A subagent with a file of its own."""
        self.subagents -= 1
        budget = min(
            max(3_000, self.budget // 2), int(self.rng.lognormvariate(math.log(50_000), 0.8))
        )
        child = Session(self.project, self.out, budget, 0, parent=self)
        self.size += child.write()
        self.now_ms = child.now_ms
        return self._agent("Agent", self.prose(1_500), self.prose(2_500), child.agent_id)

    def _agent(self, name: str, prompt: str, answer: str, agent_id: str) -> Tool:
        text = f'{{"type":"text","text":"{answer}"}}'
        structured = (
            f'{{"status":"completed","prompt":"{prompt}","agentId":"{agent_id}",'
            f'"agentType":"general-purpose","content":[{text}],'
            f'"totalDurationMs":{self.rng.randrange(9_000, 900_000)},"totalTokens":{self.context},'
            f'"totalToolUseCount":9,'
            '"usage":{"input_tokens":1,"cache_creation_input_tokens":812,'
            '"cache_read_input_tokens":51000,"output_tokens":964}}'
        )
        asked = (
            f'{{"description":"{self.title}","prompt":"{prompt}",'
            f'"subagent_type":"general-purpose"}}'
        )
        return Tool(
            name, asked, f'[{text},{{"type":"text","text":"agentId: {agent_id}"}}]', structured
        )

    # parts

    @property
    def old(self) -> bool:
        return self.version < "2.1"

    def prose(self, length: float) -> str:
        """Return about `length` characters of sentences, one in six of them with words of this
        session only."""
        rng = self.rng
        parts = rng.choices(self.sentences, k=int(length / 85) + 1)
        for at in range(rng.randrange(6), len(parts), 6):
            parts[at] = f"{rng.choice(self.words)} {parts[at]}"
        return (
            "".join(parts).rstrip(" ")
            if len(parts) > 1
            else parts[0][: max(12, int(length))].rpartition(" ")[0]
        )

    def take(self, lines: list[str], length: float) -> str:
        """Return about `length` characters of consecutive lines with one word of this session."""
        count = int(length / 48) + 1
        at = (self.near_log + self.rng.randrange(40 + count)) % max(1, len(lines) - count)
        return NL.join(lines[at : at + count]) + " " + self.rng.choice(self.words)

    def backups(self) -> str:
        return ",".join(
            f'"{path}":{{"backupFileName":"{self.rng.getrandbits(64):016x}@v2","version":2,'
            f'"backupTime":"{self.stamp()}"}}'
            for path, _ in self.rng.choices(self.project.files, k=self.rng.randint(0, 12))
        )

    def chain(self, middle: str, end: str = "") -> str:
        """Return a record with a uuid, whose parent is the record before."""
        uuid = self.uuid()
        parent = f'"{self.last}"' if self.last else "null"
        self.bare_line(
            f'{{"parentUuid":{parent},"isSidechain":{"true" if self.sidechain else "false"},'
            f'{middle},"uuid":"{uuid}",'
            f'"timestamp":"{self.stamp()}",{end}{self.common}\n'
        )
        self.last = uuid
        return uuid

    def bare(self, fields: str) -> None:
        self.bare_line(f"{{{fields}}}\n")

    def bare_line(self, line: str) -> None:
        self.lines.append(line)
        self.size += len(line)
        self.pending += len(line)
        self.since_compaction += len(line)

    def uuid(self) -> str:
        digits = f"{self.rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    def token(self, length: int) -> str:
        return b64encode(self.rng.randbytes(18)).translate(ALPHANUMERIC).decode()[:length]

    def stamp(self) -> str:
        return (
            datetime.fromtimestamp(self.now_ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6]
            + "Z"
        )


class Tool(NamedTuple):
    """One call and its result; every field but the name is JSON."""

    name: str
    input: str
    content: str
    structured: str
    error: bool = False


if __name__ == "__main__":
    main()
