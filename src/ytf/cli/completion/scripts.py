"""Makes the completion scripts of bash, zsh and fish.

Commands, options and fixed values are in the scripts. Other candidates come from
``ytf completion --candidates``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from ytf.cli.completion.grammar import FILE, NOTHING, WORDS, CompletableCommand, Option, commands

_BASH = """\
# Completion of ytf and ytf-submit for bash. To use it:  source <(ytf completion bash)

_ytf_commands() {
    case "$1" in
@commands@    esac
}

_ytf_options() {
    case "$1" in
@options@    esac
}

# The kind of the value of an option; nothing for one without a value.
_ytf_value() {
    case "$1 $2" in
@values@    esac
}

# The kind of the n-th positional argument.
_ytf_positional() {
    case "$1 $2" in
@positionals@    esac
}

_ytf_complete() {
    local line="${COMP_LINE:0:COMP_POINT}" path word kind current="" previous="" index
    local -a words=() given=() found=()
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] || { current="${words[-1]}"; unset 'words[-1]'; }
    path="${words[0]##*/}"
    words=("${words[@]:1}")
    while [[ ${#words[@]} -gt 0 && " $(_ytf_commands "$path") " == *" ${words[0]} "* ]]; do
        path+=" ${words[0]}"
        words=("${words[@]:1}")
    done
    for word in "${words[@]}"; do
        if [[ -n $previous ]]; then
            previous=""
        elif [[ -n $(_ytf_value "$path" "$word") ]]; then
            previous="$word"
        elif [[ $word != -* ]]; then
            given+=("$word")
        fi
    done
    if [[ -n $previous ]]; then
        kind="$(_ytf_value "$path" "$previous")"
    elif [[ $current == -* ]]; then
        kind="words $(_ytf_options "$path")"
    elif [[ ${#given[@]} -eq 0 && -n $(_ytf_commands "$path") ]]; then
        kind="words $(_ytf_commands "$path")"
    else
        kind="$(_ytf_positional "$path" ${#given[@]})"
    fi
    COMPREPLY=()
    case "$kind" in
        "" | nothing) ;;
        file)
            compopt -o filenames 2> /dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
            ;;
        words\\ *) mapfile -t COMPREPLY < <(compgen -W "${kind#words }" -- "$current") ;;
        *)
            mapfile -t found < <(
                command ytf completion --candidates "$kind" "${given[@]:0:1}" 2> /dev/null
            )
            # Not by "compgen -W", which expands its words: names may be of other users.
            for word in "${found[@]}"; do
                if [[ $word == "$current"* && $word != *[^A-Za-z0-9_.:#@-]* ]]; then
                    COMPREPLY+=("$word")
                fi
            done
            ;;
    esac
    # Where a colon or an at sign ends a word, bash replaces only what follows the last one.
    for word in : @; do
        if [[ $current == *"$word"* && $COMP_WORDBREAKS == *"$word"* ]]; then
            for index in "${!COMPREPLY[@]}"; do
                COMPREPLY[index]="${COMPREPLY[index]#"${current%"$word"*}$word"}"
            done
        fi
    done
}

complete -F _ytf_complete ytf ytf-submit
"""

_ZSH = """\
#compdef ytf ytf-submit
# Completion of ytf and ytf-submit for zsh. To use it:  source <(ytf completion zsh)

_ytf_commands() {
    case "$1" in
@commands@    esac
}

_ytf_options() {
    case "$1" in
@options@    esac
}

_ytf_value() {
    case "$1 $2" in
@values@    esac
}

_ytf_positional() {
    case "$1 $2" in
@positionals@    esac
}

_ytf() {
    local current="${words[CURRENT]}" path_="${words[1]:t}" previous="" kind word
    local -a rest given found
    rest=("${(@)words[2,CURRENT-1]}")
    while (( $#rest )); do
        found=("${(@f)$(_ytf_commands "$path_")}")
        (( ${found[(I)${rest[1]}:*]} )) || break
        path_+=" $rest[1]"
        shift rest
    done
    for word in "${(@)rest}"; do
        if [[ -n $previous ]]; then
            previous=""
        elif [[ -n $(_ytf_value "$path_" "$word") ]]; then
            previous="$word"
        elif [[ $word != -* ]]; then
            given+=("$word")
        fi
    done
    if [[ -n $previous ]]; then
        kind="$(_ytf_value "$path_" "$previous")"
    elif [[ $current == -* ]]; then
        found=("${(@f)$(_ytf_options "$path_")}")
        _describe option found
        return
    elif (( ! $#given )) && [[ -n $(_ytf_commands "$path_") ]]; then
        found=("${(@f)$(_ytf_commands "$path_")}")
        _describe command found
        return
    else
        kind="$(_ytf_positional "$path_" $#given)"
    fi
    case "$kind" in
        "" | nothing) ;;
        file) _files ;;
        words\\ *) compadd -- ${=kind#words } ;;
        *)
            word="$(command ytf completion --candidates "$kind" $given[1] 2> /dev/null)"
            compadd -- ${(f)word}
            ;;
    esac
}

compdef _ytf ytf ytf-submit
"""

_FISH = """\
# Completion of ytf and ytf-submit for fish. To use it:  ytf completion fish | source

function __ytf_candidates
    command ytf completion --candidates $argv 2> /dev/null
end

# The positional arguments after the command, as far as they are not options.
function __ytf_given
    set -l words (commandline -opc)
    string match --invert -- '-*' $words[3..-1]
end

complete -c ytf -c ytf-submit -f
"""


def script(shell: str) -> str:
    """The completion script of a shell."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]()


def _bash() -> str:
    return _filled(
        _BASH,
        commands_of=lambda command: " ".join(command.commands),
        options_of=lambda command: " ".join(w for each in command.options for w in each.words),
    )


def _zsh() -> str:
    def commands_of(command: CompletableCommand) -> str:
        return "\n".join(f"{name}:{text}" for name, text in command.commands.items())

    def options_of(command: CompletableCommand) -> str:
        return "\n".join(
            f"{word}:{_short(option.text)}" for option in command.options for word in option.words
        )

    return _filled(_ZSH, commands_of=commands_of, options_of=options_of)


def _filled(
    template: str,
    *,
    commands_of: Callable[[CompletableCommand], str],
    options_of: Callable[[CompletableCommand], str],
) -> str:
    """A script for bash or zsh: the tables in ``case`` branches."""
    known = commands()

    def branches(rows: Iterator[tuple[str, str]]) -> str:
        return "".join(
            f"        {case}) printf '%s\\n' {shlex.quote(text)} ;;\n" for case, text in rows
        )

    tables = {
        "commands": ((f'"{_name(c)}"', commands_of(c)) for c in known if c.commands),
        "options": ((f'"{_name(c)}"', options_of(c)) for c in known),
        "values": (
            (" | ".join(f'"{_name(c)} {word}"' for word in option.words), option.value)
            for c in known
            for option in c.options
            if option.value is not None
        ),
        "positionals": (row for c in known for row in _positionals(c)),
    }
    for name, rows in tables.items():
        template = template.replace(f"@{name}@", branches(rows))
    return template


def _positionals(command: CompletableCommand) -> Iterator[tuple[str, str]]:
    *firsts, last = command.positionals
    for number, kind in enumerate(firsts):
        yield f'"{_name(command)} {number}"', kind
    if last != NOTHING:
        yield f'"{_name(command)} "*', last


def _fish() -> str:
    lines = [_FISH]
    for command in commands():
        start = f"complete -c {command.path[0]}"
        # The options and commands of a command that has commands come before one of them.
        before = (f"not __fish_seen_subcommand_from {' '.join(command.commands)}",)
        here = _fish_condition(command, *(before if command.commands else ()))
        for name, text in command.commands.items():
            lines.append(f"{start} {here} -a {name} -d {shlex.quote(_short(text))}\n")
        lines += (f"{start} {here} {_fish_option(option)}\n" for option in command.options)
        for number, kind in enumerate(command.positionals):
            is_last = number == len(command.positionals) - 1
            test = f"test (count (__ytf_given)) {'-ge' if is_last else '-eq'} {number}"
            condition = _fish_condition(command, test)
            if kind == FILE:
                lines.append(f"{start} {condition} -F\n")
            elif kind != NOTHING:
                lines.append(f"{start} {condition} -a {_fish_values(kind)}\n")
    return "".join(lines)


def _fish_condition(command: CompletableCommand, *more: str) -> str:
    tests = [f"__fish_seen_subcommand_from {name}" for name in command.path[1:]]
    return f"-n {shlex.quote('; and '.join([*tests, *more]))}" if tests or more else ""


def _fish_option(option: Option) -> str:
    words = [
        f"-s {word[1:]}" if not word.startswith("--") else f"-l {word[2:]}" for word in option.words
    ]
    if option.value == FILE:
        words.append("-rF")
    elif option.value is not None:
        words.append("-x")
        if option.value != NOTHING:
            words.append(f"-a {_fish_values(option.value)}")
    return f"{' '.join(words)} -d {shlex.quote(_short(option.text))}"


def _fish_values(kind: str) -> str:
    if kind.startswith(f"{WORDS} "):
        return shlex.quote(kind.removeprefix(f"{WORDS} "))
    if kind in ("tasks", "running-tasks"):
        return shlex.quote(f"(__ytf_candidates {kind} (__ytf_given)[1])")
    return shlex.quote(f"(__ytf_candidates {kind})")


def _name(command: CompletableCommand) -> str:
    return " ".join(command.path)


def _short(text: str) -> str:
    """The beginning of a help text, for a menu."""
    text = " ".join(text.split())
    return text if len(text) <= 72 else text[:71].rstrip() + "…"
