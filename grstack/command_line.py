"""What was typed: words for options that may be left out (`inv opp which X`), and what a misspelt one may mean.

Invoke has positional arguments too, but each of them must then be given; of an unknown word it says that it is unknown.
"""

from __future__ import annotations

import copy
import difflib
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from invoke.collection import Collection
from invoke.exceptions import ParseError
from invoke.parser.context import ParserContext
from invoke.parser.parser import Parser
from invoke.tasks import Task

from grstack.errors import UsageError

NOT_IN_QUOTES = '"$`\\'  # what a shell reads in double quotes, too


def spell_out(tokens: Sequence[str], words: Mapping[str, Sequence[str]]) -> list[str]:
    """`words` names for each task the options that the words after it stand for."""
    done: list[str] = []
    waiting: list[str] = []
    for token in tokens:
        if token.startswith("-"):
            waiting = []  # the next word may be an option's value
        if waiting:
            done.append(f"--{waiting.pop(0)}={token}")
        else:
            done.append(token)
            waiting = list(words.get(token, ())) if not done[:-1] else waiting
    return done


def with_default(tokens: Sequence[str], option: str, values: Sequence[str], tasks: Iterable[str]) -> list[str]:
    """`option` may stand alone: then it has the first of `values`. A word that is none of them is the task's own.

    UsageError where the task has another word of its own: `inv run --print helm "true"`.
    """
    done, known = list(tokens), set(tasks)
    for number, token in enumerate(tokens):
        following, behind = [*tokens[number + 1 : number + 3], "", ""][:2]
        if token != option or following in values:
            continue
        own = max((at for at in range(number) if tokens[at] in known), default=0)  # of several tasks in one call
        before = tokens[own + 1] if own + 1 < number else ""
        if _is_word(following) and (_is_word(before) or _is_word(behind) and behind not in known):
            raise UsageError(
                f"{option}: '{following}' is none of {', '.join(values)}; a command of several words wants quotes",
                next_command=f'inv {tokens[own]} {option} {values[0]} "COMMAND"',
            )
        done[number] = f"{option}={values[0]}"
    return done


def _is_word(token: str) -> bool:
    return bool(token) and not token.startswith("-")


def asked_about(tokens: Sequence[str], tasks: Iterable[str]) -> str:
    """The task of `inv TASK --help`, which invoke takes for the argument where a task has a positional one."""
    if len(tokens) == 2 and tokens[1] in ("--help", "-h") and tokens[0] in tasks:
        return tokens[0]
    return ""


def copied(task: Task[Any]) -> Task[Any]:
    """A task to parse with: parsing takes the options' help away, which invoke shows later."""
    other = copy.copy(task)
    other.help = dict(task.help)
    return other


def check(tokens: Sequence[str], tasks: Collection, core: ParserContext) -> None:
    """Raises UsageError, with the nearest task or option, where invoke would not understand `tokens`.

    `core` holds invoke's own options, which may stand after a task too.
    """
    contexts = tasks.to_contexts()
    _refuse_unquoted(tokens, contexts, core)
    _refuse_as_argument(tokens, contexts, core)
    try:
        Parser(initial=core, contexts=contexts).parse_argv(list(tokens))
    except ParseError as error:
        context = error.context or core
        task = context.name
        unknown = re.fullmatch(r"No idea what '(.*)' is!", str(error), re.DOTALL)
        if unknown is None:
            raise UsageError(str(error), next_command=f"inv --help {task}" if task else "inv --list") from None
        word = unknown[1].partition("=")[0]
        if not word.startswith("-") or task is None:
            raise unknown_task(word, (other.name or "" for other in contexts)) from None
        raise _unknown_option(word, context, core) from None


def _refuse_as_argument(tokens: Sequence[str], contexts: Sequence[ParserContext], core: ParserContext) -> None:
    """`inv run --targett cpu "x"`: of a task with an argument invoke takes an option that it does not know for it."""
    context = next((other for other in contexts if tokens and other.name == tokens[0]), None)
    if context is None or not context.positional_args:
        return
    flags = {*context.flags, *core.flags}
    for word in (token.partition("=")[0] for token in tokens[1:] if token.startswith("--")):
        if re.fullmatch(r"--[\w-]+", word) and word not in flags:
            raise _unknown_option(word, context, core)


def _refuse_unquoted(tokens: Sequence[str], contexts: Sequence[ParserContext], core: ParserContext) -> None:
    """`inv run python -m gr_model.train --config smoke`: the shell hands over words, and --config is invoke's own."""
    context = next((other for other in contexts if tokens and other.name == tokens[0]), None)
    if context is None or [argument.name for argument in context.positional_args] != ["command"]:
        return
    known = {*context.flags, *core.flags}
    first = _first_word(tokens, context)
    before_it = [token.partition("=")[0] for token in tokens[1:first] if token.startswith("--")]
    if any(option not in known or (option in core.flags and core.flags[option].takes_value) for option in before_it):
        return  # of a misspelt option, and of invoke's own, nobody knows whether the next word is its value
    # An option after the command is the task's, or one of invoke's that changes how it says things; -c is its argument.
    about_it = {flag: argument for flag, argument in context.flags.items() if argument.name != "command"}
    about_it |= {flag: core.flags[flag] for flag in core.flags if not core.flags[flag].takes_value or flag == "--hide"}
    waiting, words = False, []
    for token in tokens[first + 1 :]:
        option, equals, _ = token.partition("=")
        if not waiting and option in about_it:
            waiting = about_it[option].takes_value and not equals
            continue
        if not waiting:
            words.append(token)
        waiting = False
    names = {other.name for other in contexts}
    if words and words[0] not in names and not _is_about(words[0], context, core):
        before, word, behind = shlex.join(tokens[:first]), tokens[first], shlex.join(tokens[first + 1 :])
        command = f"{word if ' ' in word else shlex.quote(word)} {behind}"
        raise UsageError(
            f"inv {context.name} takes its command as one argument: quotes are missing",
            next_command=f'inv {before} "{"COMMAND" if set(command) & set(NOT_IN_QUOTES) else command}"',
        )


def _first_word(tokens: Sequence[str], context: ParserContext) -> int:
    """The place of the task's argument: the first word that is neither an option nor an option's value."""
    place = 1
    while place < len(tokens) and tokens[place].startswith("-"):
        argument = context.flags.get(tokens[place])
        place += 2 if argument is not None and argument.takes_value else 1
    return place


def _is_about(word: str, context: ParserContext, core: ParserContext) -> bool:
    """Whether an option after the command is meant for the task: its help, or one of its own that is misspelt."""
    option = word.partition("=")[0]
    if option in ("--help", "-h", "--dry", "--dry-run", "-R"):
        return True
    return option.startswith("--") and option not in core.flags and bool(_nearest(option, context.flags))


def _unknown_option(word: str, context: ParserContext, core: ParserContext) -> UsageError:
    near = _nearest(word, [flag for flag in (*context.flags, *core.flags) if flag.startswith("--")])
    return UsageError(f"inv {context.name} has no option '{word}'{near}", next_command=f"inv --help {context.name}")


def unknown_task(name: str, known: Iterable[str]) -> UsageError:
    near = _nearest(name, known)
    meant = near.partition("did you mean ")[2].rstrip("?")
    return UsageError(f"there is no task '{name}'{near}", next_command=f"inv {meant}" if meant else "inv --list")


def _nearest(word: str, known: Iterable[str]) -> str:
    found = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {found[0]}?" if found else ""
