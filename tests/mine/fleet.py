"""A fleet of made-up sessions, into which patterns are planted. Each session goes through the real
digest.

What is not planted differs from session to session, as work does: other files, other errors, other
words. So whatever recurs was planted.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from runlore.digest.session import make
from runlore.mine.values import Case, Skill
from runlore.model import Cost, Session, SessionEvent, Tests

START = datetime(2026, 1, 1, tzinfo=UTC)
REPOS = ("acme/shop", "acme/api", "ada/notes")
AGENTS = ("one", "two")
SYLLABLES = "ba de fi go lu ma ne pi ro su ta ve wi xo yu za".split()


class Script:
    """A session while it is being written."""

    def __init__(self, seed: random.Random, number: int) -> None:
        self.seed, self.number = seed, number
        self.uid = f"toy:{number:04}"
        self.at = START + timedelta(hours=7 * number)
        self.events: list[SessionEvent] = []
        self.bodies: dict[int, str] = {}
        self.usd = 1.0 + seed.random()
        self.retries = 0
        self.skills: list[Skill] = []

    def word(self) -> str:
        """One that no other session has."""
        return "".join(self.seed.choices(SYLLABLES, k=4)) + str(self.number)

    def add(self, kind: str, text: str = "", **fields: Any) -> int:
        seq = len(self.events)
        self.at += timedelta(seconds=self.seed.randint(3, 40))
        role = {"user_msg": "user", "assistant_msg": "assistant", "tool_result": "tool"}.get(kind)
        given = {"role": role, "summary": text[:150], "ts": self.at, **fields}
        self.events.append(SessionEvent(session_uid=self.uid, seq=seq, kind=kind, **given))
        self.bodies[seq] = text
        return seq

    def call(
        self,
        called: str,
        came_back: str = "",
        *,
        kind: str = "tool_call",
        action: str = "shell",
        **fields: Any,
    ) -> None:
        call_id = str(len(self.events))
        own = {name: fields.pop(name) for name in ("files", "tool") if name in fields}
        self.add(kind, called, action=action, call_id=call_id, **{"tool": action.title(), **own})
        self.add("tool_result", came_back, call_id=call_id, action=action, **fields)

    def edit(self, path: str) -> None:
        line = self.word()
        self.call(
            f"{path}\n@@\n-old {line}\n+new {line}", "ok", kind="edit", action="edit", files=(path,)
        )

    def test(
        self,
        *,
        failed: int = 0,
        passed: int | None = None,
        command: str = "pytest -q",
        said: str = "",
    ) -> None:
        passed = self.seed.randint(3, 90) if passed is None else passed
        said = said or f"{failed} failed, {passed} passed"
        self.call(
            command,
            said,
            kind="test_run",
            tests=Tests(passed=passed, failed=failed),
            is_error=failed > 0,
            exit_code=int(failed > 0),
        )

    def fail(self, command: str, said: str, **fields: Any) -> None:
        self.call(command, said, is_error=True, exit_code=1, **fields)


def ordinary(script: Script) -> None:
    """What every session has: a task, some looking around, some changes, an error of its own,
    tests."""
    script.add(
        "user_msg",
        f"Please make {script.word()} of {script.word()} faster, and keep {script.word()} as it is",
    )
    for _ in range(script.seed.randint(2, 5)):
        script.call(
            f"src/{script.word()}.py", "text", action="read", files=(f"/w/src/{script.word()}.py",)
        )
    if script.seed.random() < 0.5:
        missing = script.word()
        script.fail(
            f"python {missing}.py",
            f"Traceback (most recent call last):\nModuleNotFoundError: No module named '{missing}'",
        )
    for _ in range(script.seed.randint(1, 3)):
        script.edit(f"/w/src/{script.word()}.py")
    script.call(f"grep -rn {script.word()} src", "src/a.py:1")
    script.test()


def ending(script: Script) -> None:
    script.add("assistant_msg", f"{script.word()} is done.")


def session(
    number: int, seed: random.Random, plant: Callable[[Script], None] | None = None
) -> Case:
    script = Script(seed, number)
    ordinary(script)
    if plant is not None:
        plant(script)
    if plant is not abandoned:
        ending(script)
    made = Session(
        session_uid=script.uid, flavor="toy", native_session_id=script.uid[4:],
        last_seq=len(script.events) - 1, content_hash="h",
        cost=Cost(retries=script.retries, wall_clock_s=60.0),
    )  # fmt: skip
    digest = make(made, script.events, script.bodies)
    repo, agent = seed.choice(REPOS), seed.choice(AGENTS)
    at = script.at.isoformat().replace("+00:00", "Z")
    return Case(
        uid=script.uid,
        digest=digest,
        agent=agent,
        repo=repo,
        root=script.uid,
        at=at,
        usd=script.usd,
        skills=tuple(script.skills),
    )


def fleet(seed: int, count: int, plants: dict[str, list[int]]) -> list[Case]:
    """Sessions 0 to `count`, with what is planted in those that are named."""
    rng = random.Random(seed)
    where = {number: name for name, numbers in plants.items() for number in numbers}
    cases = [session(n, rng, PLANTS[where[n]][0] if n in where else None) for n in range(count)]
    # What is about a repository must be planted in one.
    return [
        msgspec.structs.replace(case, repo=REPOS[0]) if n in where else case
        for n, case in enumerate(cases)
    ]


# ── what is planted ───────────────────────────────────────────────────────────────────────────────
def recurring_error(script: Script) -> None:
    path = script.word()
    script.fail(
        f"cargo build -p {path}",
        "error[E0308]: mismatched types\n  -->"
        f" src/{path}.rs:{script.seed.randint(1, 900)}:5\nexpected `u32`",
    )


def recovery(script: Script) -> None:
    script.fail(
        "npm run build",
        "Error: Cannot find module 'vite'\n    at Module._resolveFilename"
        " (node:internal/modules:1:1)",
    )
    script.call("npm install", "added 120 packages", exit_code=0)
    script.call("npm run build", "built in 2 s", exit_code=0)


def retry_storm(script: Script) -> None:
    for _ in range(4):
        script.fail(
            "make deploy", f"deploy: connection to host-{script.word()} refused at {script.word()}"
        )


def tool_thrash(script: Script) -> None:
    for _ in range(4):
        path = f"/w/{script.word()}.py"
        said = "String to replace not found in file."
        script.call(
            f"{path}\n@@\n-a\n+b",
            said,
            kind="edit",
            action="edit",
            tool="Edit",
            files=(path,),
            is_error=True,
        )


def edit_churn(script: Script) -> None:
    for _ in range(14):
        script.edit("/w/app/views/cart.py")


def context_pressure(script: Script) -> None:
    for _ in range(3):
        script.add("lifecycle", "compacted", view="compact")
        script.call(f"cat {script.word()}", "text", exit_code=0)


def budget_overrun(script: Script) -> None:
    script.usd = 40.0 + script.seed.random()


def infrastructure(script: Script) -> None:
    for _ in range(60):
        script.call(f'{{"todos": "{script.word()}"}}', "ok", action="plan", tool="TodoWrite")


def abandoned(script: Script) -> None:
    script.add("assistant_msg", f"Shall I go on with {script.word()}?")
    script.add("user_msg", f"Yes, do {script.word()} first and then {script.word()}")
    script.edit(f"/w/src/{script.word()}.py")
    script.add(
        "human_intervention", "[Request interrupted by user]", native="interrupt", role="user"
    )


def correction(script: Script) -> None:
    said = [
        "No, use pnpm instead of npm for packages here",
        "please do not use npm, packages are installed with pnpm",
        "wrong: packages need pnpm, not npm",
    ]
    script.add("assistant_msg", f"I have installed {script.word()}.")
    script.add("user_msg", script.seed.choice(said))
    script.call("pnpm install", "ok", exit_code=0)
    script.add("assistant_msg", "Done with pnpm.")


def clean_pass(script: Script) -> None:
    del script.events[:], script.bodies
    script.bodies = {}
    script.add("user_msg", f"Please add {script.word()} to {script.word()}, with a test")
    for _ in range(3):
        script.edit(f"/w/src/{script.word()}.py")
    script.call(f"src/{script.word()}.py", "text", action="read")
    script.call(f"grep {script.word()} src", "found", action="search")
    script.add("assistant_msg", f"{script.word()} is there.")
    script.add("user_msg", f"good, and {script.word()} as well")
    script.edit(f"/w/src/{script.word()}.py")
    script.test(passed=120)
    script.call("git commit -am done", "[main 1a2b3c4] done", exit_code=0)


def flaky_test(script: Script) -> None:
    said = (
        "FAILED tests/test_cart.py::test_checkout - TimeoutError: waited 5 s\n1 failed, 20 passed"
    )
    script.test(failed=1, command="pytest tests/test_cart.py", said=said)
    script.test(command="pytest tests/test_cart.py")


def slow_step(script: Script) -> None:
    script.call(
        f"docker build -t shop:{script.word()} .",
        "done",
        exit_code=0,
        duration_ms=400_000 + script.seed.randint(0, 90_000),
    )


def failing_skill(script: Script) -> None:
    script.skills = [Skill("refactor", False), Skill("refactor", False), Skill("refactor", True)]


def changed(failed: str, worked: str, said: str) -> Callable[[Script], None]:
    """A call that fails, and then succeeds in another form."""

    def plant(script: Script) -> None:
        name = script.word()
        script.fail(failed.format(name), said.format(name))
        script.call(worked.format(name), "ok", exit_code=0)

    return plant


def read_first(script: Script) -> None:
    path = f"/w/{script.word()}.py"
    said = "File has not been read yet. Read it first before writing to it."
    script.call(path, said, action="edit", tool="Edit", files=(path,), is_error=True)
    script.call(path, "text", action="read", files=(path,))
    script.call(path, "ok", action="edit", tool="Edit", files=(path,))


quoted = changed(
    "gh api repos/{}?ref=x", "gh api 'repos/{}?ref=x'", "zsh: no matches found: repos/{}?ref=x"
)
left_out = changed("timeout 9 make {}", "make {}", "zsh: command not found: timeout")
replaced_program = changed("python {}.py", "python3 {}.py", "zsh: command not found: python")
added_prefix = changed(
    "pytest {}", "PYTHONPATH=. pytest {}", "ModuleNotFoundError: No module named 'app'"
)
added_flag = changed(
    "cargo build {}", "cargo build {} --all-features", "error: no such feature here: fast"
)
absolute_path = changed(
    "ruff check {}.py", "ruff check /w/app/{}.py", "error: no such file or directory here"
)
setup_first = changed(
    "bun {}.ts",
    "bun install && bun {}.ts",
    "SyntaxError: Export named 'a' not found in module '/w/dist/index.js'.",
)


PLANTS: dict[str, tuple[Callable[[Script], None], str]] = {
    "recurring_error": (recurring_error, "mismatched"),
    "recovery": (recovery, "vite"),
    "retry_storm": (retry_storm, "make deploy"),
    "tool_thrash": (tool_thrash, "String to replace"),
    "edit_churn": (edit_churn, "cart.py"),
    "context_pressure": (context_pressure, "compacted"),
    "budget_overrun": (budget_overrun, "cost"),
    "infrastructure": (infrastructure, "overhead"),
    "abandoned": (abandoned, "abandoned"),
    "correction": (correction, "pnpm"),
    "clean_pass": (clean_pass, "without an error"),
    "flaky_test": (flaky_test, "test_checkout"),
    "slow_step": (slow_step, "docker build"),
    "failing_skill": (failing_skill, "refactor"),
    "quoted": (quoted, "quoted"),
    "left_out": (left_out, "timeout"),
    "replaced_program": (replaced_program, "python3"),
    "added_prefix": (added_prefix, "PYTHONPATH"),
    "added_flag": (added_flag, "--all-features"),
    "absolute_path": (absolute_path, "in full"),
    "setup_first": (setup_first, "bun install"),
    "read_first": (read_first, "read first"),
}
"""By type of signal, how it is planted, and a word of what should be said of it."""
