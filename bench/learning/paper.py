"""A sheet as a page that a judge can read: what is claimed, what counts as right, how to answer.

    python -m bench.learning.paper fixes --sheet fixes.jsonl > fixes.md

The judge has seen neither the code nor the rules, and answers with lines of id, verdict and reason,
divided by tabs, which `score` reads. Pages hold text of transcripts, so they are never committed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

_ANSWER = (
    "Answer with one line for each claim, divided by tabs, and nothing else: the id exactly as it"
    " is written, the verdict, and a reason of at most ten words. Judge each claim by what is"
    " printed here alone. Do not look at the program that made the claims, at its rules, or at"
    " other verdicts."
)
INSTRUCTIONS = {
    "fixes": """A program read logs of coding agents. It claims that an error was fixed, and how.
`error` is the error, `failing result` what was printed when it occurred. `claimed fix` says what
is claimed: `how` is the kind (edit: a change of a file; command: a command that was run in between;
changed: the same call made differently; read: a file was read before it could be edited), `steps`
what was done, the first one is the fix, `change`, `before` and `after` what is shown of it, `cause`
what the agent said about the cause. `what happened` has the log from the failing call to the
success, long texts shortened; `later result` is the result that is taken for the success.

- `right`: the error was really an error, it really went away, and the first step with what is
  shown of it is what made it go away (or a needed part of it). A shortened text is no fault.
- `wrong`: it did not go away, something else made it go away, the step is unrelated, what is shown
  is not the part that mattered, or nothing was wrong in the first place.
- `unclear`: it cannot be told from what is printed. It counts as wrong, so use it seldom.""",
    "prompts": """These are messages of people to coding agents, with what the agent did and
wrote before them. Which of them correct the agent? Nothing is claimed; the page has both kinds.

- `yes`: the person rejects or redirects what the agent did, proposed or said: it is wrong, it does
  not work, it was not what was asked, it is to be undone or done differently. A failure that is
  pasted after the agent said that its work was done is one, too.
- `no`: a new task, the next step, an answer to the agent's question, added information, a
  question, an approval, a command to the program.
- `arguable`: both readings are possible. Use it seldom.""",
    "errors": """A program read logs of coding agents. It claims that a result of a call reports an
error. `claimed error` is the line, `call` what was called, `result text` what came back.

- `right`: the call or what it ran really failed, or reported a failure, and the line says so in
  its own words.
- `wrong`: nothing failed (a file that was printed, a listing, a patch, a search result, a question
  or refusal of the person, a message about a submission), or the line is not the error.
- `unclear`: it cannot be told from what is printed. It counts as wrong, so use it seldom.""",
    "digests": """A program made a digest of each session of a coding agent, from its log. Check
each field of `digest` against `what happened`. Long texts are shortened in both; that is no fault.
Sequence numbers (`seq`) name the events. Answer with a line for each of these fields of each
session: id, field, verdict (`right` or `wrong`), reason. An empty field is right if the session has
nothing to tell there. Write `nothing` as the reason in that case.

- `goal`, `requests`: what the person asked for (the first request; all of them).
- `result`: the agent's last words of substance, in its own words.
- `outcome`: success, fail, abandoned or unknown, with its level and evidence. Unknown is right
  unless the log proves more.
- `files`: the files read, edited and created, as far as they matter.
- `commands`, `tests`, `commits`, `pull_requests`: what was run, and how it ended.
- `errors`, `fixes`: the errors that occurred, and what fixed them. A fix that is left out is no
  fault; one that is claimed and false is.
- `decisions`: what the person decided, with its content.
- `corrections`: messages in which the person rejects or redirects what the agent did.""",
    "lessons": """A program proposes advice for coding agents from what happened in several
sessions. `when` says when it applies, `do` and `avoid` what it says, `applies to` where it would be
shown, `evidence` the events that it rests on, each with its neighbours.

- `right`: you would give this advice to an agent in such a situation: it is true, its evidence
  supports it, it says when it applies, it is not obvious from the error message, and it does no
  harm.
- `wrong`: anything else.""",
}
INSTRUCTIONS["corrections"] = INSTRUCTIONS["prompts"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=INSTRUCTIONS)
    parser.add_argument("--sheet", type=Path, action="append", required=True)
    options = parser.parse_args()
    claims = [
        json.loads(line) for path in options.sheet for line in path.read_text().splitlines() if line
    ]
    print(f"# {options.what}: {len(claims)} to judge\n\n{INSTRUCTIONS[options.what]}\n\n{_ANSWER}")
    for claim in claims:
        print(render_claim(claim))


def render_claim(claim: dict[str, Any]) -> str:
    """Return a claim with a heading for its id and one for each of its parts."""
    parts = [f"\n## {claim['id']}"]
    for name, value in claim.items():
        if name == "id" or value in (None, "", [], {}):
            continue
        if isinstance(value, str):
            text = value
        elif isinstance(value, list) and all(isinstance(one, str) for one in value):
            text = "\n".join(value)
        else:
            text = json.dumps(value, ensure_ascii=False, indent=1)
        parts.append(f"**{name}**\n\n{_indent(text)}")
    return "\n\n".join(parts)


def _indent(text: str) -> str:
    """Return a text as a block of code, whatever marks it has."""
    return "\n".join(f"    {line}" for line in text.splitlines())


if __name__ == "__main__":
    main()
